// Package clockdrift is the arithmetic of a lease that several clocks measure.
//
// The servers count a key's time to live on their clocks, the holder on its own.
// The holder's lease must end first, so:
//
//   - [Allowance] is how much of a TTL is given up, because clocks run at
//     different speeds; [Deadline] is when the lease ends for sure.
//   - [Clock] is what the holder measures with: Go's monotonic clock and the time
//     that the machine has slept, during which the servers' clocks go on.
//   - [Estimator] tells from samples of TIME how a node's clock stands, how fast
//     it drifts, and when it was stepped; [Median] is the time that most nodes
//     agree upon, wherever a minority of their clocks may stand.
//
// Apart from Clock nothing here reads a clock, and nothing does any I/O.
//
// # What a sleeping machine does to the clock
//
// Go's monotonic clock stops during sleep on some systems and not on others. What
// [New] promises follows the system:
//
//   - Linux: Go reads CLOCK_MONOTONIC, which stops. Sleep is measured as the growth
//     of CLOCK_BOOTTIME − CLOCK_MONOTONIC, to 0.1ms. The kernel is asked once a
//     millisecond, and whenever the wall clock has moved against Go's, for a sleep
//     moves that as well. In that millisecond it misses a sleep only if somebody
//     also sets the wall clock back, by the sleep's length to 0.05ms.
//   - Windows: Go reads the interrupt time of the shared user page, which goes on
//     during sleep and hibernation. There is nothing to add.
//   - macOS and iOS: Go reads mach_absolute_time, which stops, and the standard
//     library has no way to mach_continuous_time, which does not. See below.
//   - FreeBSD and all others: Go reads CLOCK_MONOTONIC or what is nearest to it; it
//     stops on some (FreeBSD) and not on others (OpenBSD). See below.
//
// On the last two, and on a Linux that forbids the system call, the wall clock is
// the witness: where it ran ahead of the monotonic clock by more than 0.1s and a
// thousandth of the time between two readings, its lead counts as sleep. A wall
// clock that was stepped forward looks the same, and then leases end early, which
// is the safe side. What this does not see: a sleep shorter than that, and one
// that hides behind a wall clock which was stepped back meanwhile. A program that
// can measure better, through cgo for instance, uses [NewWith].
//
// Nowhere does it see a virtual machine that its host has paused: there all clocks
// of the guest stand still, CLOCK_BOOTTIME as well. Fencing answers that, not a clock.
//
// A timer (time.AfterFunc, a context's deadline) runs by Go's monotonic clock. Where
// that stops, a timer that is due during sleep fires late by the length of the
// sleep. Nobody may infer from a timer that has not fired that a lease still
// runs: compare the deadline with [Clock.Fresh].
package clockdrift
