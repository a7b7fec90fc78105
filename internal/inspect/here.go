package inspect

import (
	"context"
	"time"
)

// A machine is this one, as far as it matters to holders of locks that run here.
type machine struct {
	pause         time.Duration // the longest for which this process was not run
	before, after quota
	clock         timekeeping
}

// A quota is what the system has let this process's group have of its processors.
type quota struct {
	periods, throttled int64
	ok                 bool
}

// Timekeeping is how this machine keeps time.
type timekeeping struct {
	asleep bool // leases notice that it slept
	synced bool // its clock follows a time service
	ok     bool // it says so
}

// tick is how often the process looks whether it was run.
const tick = time.Millisecond

// watch measures for how long this process is not run. It sleeps and does not spin: what spins is
// preempted, which is no pause.
func (m *machine) watch(ctx context.Context, during time.Duration) {
	m.clock, m.before = readTimekeeping(), readQuota()
	begun := time.Now()
	for last := begun; ctx.Err() == nil && last.Sub(begun) < during; {
		time.Sleep(tick)
		now := time.Now()
		m.pause = max(m.pause, now.Sub(last)-tick)
		last = now
	}
	m.after = readQuota()
}

// report says what is wrong with this machine.
func (m *machine) report(ttl time.Duration) HereReport {
	r := HereReport{Pause: m.pause.Seconds()}
	find := func(s Severity, seen Seen, why string, mend ...string) {
		r.Findings = append(r.Findings, newFinding("here", "", s, seen, why, mend))
	}
	if m.pause > ttl/20 {
		find(Warning, Seen{"pause_s": m.pause.Seconds(), "ttl_s": ttl.Seconds()},
			"a holder that is paused does not renew, and may go on after its lease has ended", "# give this machine less to do or more processors; or locks a longer --ttl")
	}
	if throttled := m.after.throttled - m.before.throttled; m.before.ok && m.after.ok && throttled > 0 {
		find(Warning, Seen{"throttled_periods": throttled, "of": m.after.periods - m.before.periods},
			"the CPU quota of this group stops its processes: a throttled holder is a stopped one", "# raise or remove the quota (cpu.max, CPUQuota=, resources.limits.cpu)")
	}
	if !m.clock.asleep {
		find(Warning, Seen{"suspend": "not noticed"}, "on this system leases do not see that the machine slept: see package clockdrift", "# run holders on Linux or Windows, or never suspend the machine")
	}
	switch {
	case !m.clock.ok:
		find(Info, Seen{"clock": "unknown"}, "nobody can tell whether a time service keeps this machine's clock", "# see that chronyd, ntpd or another one runs")
	case !m.clock.synced:
		find(Info, Seen{"clock": "unsynchronised"}, "no time service keeps this machine's clock: leases need its speed, and logs its time", "# start chronyd, ntpd or another one")
	}
	return r
}
