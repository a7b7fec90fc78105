// Package clockdrift is the arithmetic of a lease that several clocks measure.
//
// The servers count a key's time to live on their clocks, the holder on its own.
// The holder's lease must end first, so:
//
//   - [Allowance] is the part of a TTL that is given up, because clocks run at
//     different speeds; [Deadline] is when the lease ends for sure.
//   - [Clock] is the holder's clock: Go's monotonic clock and the machine's time
//     asleep, during which the servers' clocks go on.
//
// Apart from Clock nothing here reads a clock, and nothing does any I/O.
//
// # What a sleeping machine does to the clock
//
// Go's monotonic clock stops during sleep on some systems and not on others. The
// promise of [New] depends on the system:
//
//   - Linux: Go reads CLOCK_MONOTONIC, which stops. Sleep is measured as the growth
//     of CLOCK_BOOTTIME − CLOCK_MONOTONIC, to 0.1ms. The kernel is asked once a
//     millisecond, and whenever the wall clock has moved against Go's, as a sleep
//     makes it do. In that millisecond a sleep is missed only if somebody also
//     sets the wall clock back, by the sleep's length to 0.05ms.
//   - Windows: Go reads the interrupt time of the shared user page, which goes on
//     during sleep and hibernation. There is nothing to add.
//   - macOS and iOS: Go reads mach_absolute_time, which stops, and the standard
//     library has no way to mach_continuous_time, which does not. See below.
//   - FreeBSD and all others: Go reads CLOCK_MONOTONIC or the nearest clock, which
//     stops on FreeBSD and not on OpenBSD. See below.
//
// On the last two, and on a Linux that forbids the system call, the wall clock is
// the witness: where it ran ahead of the monotonic clock by more than 0.1s and a
// thousandth of the time between two readings, its lead counts as sleep. A wall
// clock that was stepped forward looks the same, and then leases end early, which
// is the safe side. Not seen are shorter sleeps, and sleeps behind a wall clock
// which was stepped back meanwhile. A program that can measure better, through cgo
// for instance, uses [NewWith].
//
// No clock sees that the host has paused a virtual machine: all clocks of the guest
// stand still, CLOCK_BOOTTIME as well. Fencing is the answer, not a clock.
//
// A timer (time.AfterFunc, a context's deadline) runs by Go's monotonic clock. Where
// that clock stops, a timer that is due during sleep fires late by the length of the
// sleep. A silent timer is no proof that a lease still runs: compare the deadline
// with [Clock.Fresh].
package clockdrift
