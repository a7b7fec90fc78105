// Package supervise runs a program under a lock, and stops it before the lock ends.
//
// # Who kills is not who renews
//
// Run starts this executable a second time, as a guard, and the guard starts the program. This
// process renews the lock, and writes each deadline into a pipe. The guard neither renews nor
// talks to any node. When the last deadline that it has read comes near, or when the pipe ends,
// it stops the program: by a signal at deadline − grace − margin, and by SIGKILL to all
// descendants at deadline − [Margin]. So the program is stopped in time even though this process
// is killed, stopped, swapped out or hung, and whatever the network does.
//
// # Systems
//
// On Linux the guard adopts what the program leaves behind (it is a subreaper), so it finds all
// descendants, also those with a session of their own, by the lists of children in /proc. The
// program's number stays taken until no descendant runs, and the others are held by pidfds: nothing is
// signalled by a number that may be somebody else's (before Linux 5.3: but for the moment after a
// look). Deadlines are in CLOCK_BOOTTIME, which goes on while the machine sleeps. If the guard itself
// is killed, the kernel kills the program; if this process is killed with it, what the program has
// started runs on.
//
// On macOS and the BSDs the guard kills the process group. A descendant with a group of its own is
// not found; what is left of the group when the program ends is killed; deadlines go by the wall
// clock; and a killed guard leaves the program running. Other systems are refused: [ErrSystem].
//
// What a program asks others to run (containers, units of an init system, jobs of a queue) is no
// descendant, and a program that has become another user's can only be killed by root.
package supervise
