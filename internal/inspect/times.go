package inspect

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
)

// farOff is an offset of a clock that fences and people would notice.
const farOff = time.Second

// checkClock says that the node's clock runs too fast or too slow, or was set.
func (t *target) checkClock() {
	if !t.trial.shows {
		t.cannotTell("clock", "how its clock runs", "time", t.replies["TIME"])
		return
	}
	const slew = "# let a time service (chronyd, ntpd) slew the clock of that machine, and see why it did not"
	if low, high, ok := t.trial.clock.Drift(); ok {
		t.report.Drift = &[2]float64{math.Round(low), math.Round(high)}
		if limit := t.exam.Drift * 1e6; low > limit || high < -limit {
			t.find("clock", Unfit, Seen{"drift_ppm": fmt.Sprintf("%.0f to %.0f", low, high), "leases_allow_ppm": limit},
				"keys expire there before their leases end", slew, "# or give all clients a greater --drift")
		}
	}
	for _, step := range t.trial.steps {
		t.find("clock", Warning, Seen{"step_s": step.Mid().Seconds()}, "its clock was set while it was watched: after a step forward keys expire early",
			slew, "# and give all clients --clock-guard")
		break
	}
}

// checkOffsets compares the nodes' clocks with their median.
func (e *exam) checkOffsets() {
	now := e.clock.Now()
	var all []nodeclock.Bounds
	for _, t := range e.targets {
		if offset, ok := t.trial.clock.Offset(now); ok {
			all = append(all, offset)
		}
	}
	median, ok := nodeclock.Median(all)
	if !ok {
		return
	}
	for _, t := range e.targets {
		offset, ok := t.trial.clock.Offset(now)
		if !ok {
			continue
		}
		low, high := offset.Low-median.Mid(), offset.High-median.Mid()
		t.report.Offset = &[2]float64{low.Seconds(), high.Seconds()}
		if offset.Low-median.High > farOff || median.Low-offset.High > farOff {
			t.find("clock", Warning, Seen{"offset_s": offset.Mid().Seconds() - median.Mid().Seconds()},
				"its clock is far from the others': fences jump ahead, and its log does not fit theirs",
				"# let a time service slew the clock of that machine: a step forward would end leases early")
		}
	}
}

// checkLatency says that the node is slow for these settings, or was.
func (t *target) checkLatency() {
	limit := t.exam.NodeTimeout
	if l := latency(t.timed()); l != nil && l.P99 > limit.Seconds()/2 {
		t.find("latency", Warning, Seen{"p50_s": l.P50, "p99_s": l.P99, "node_timeout_s": limit.Seconds()},
			"one answer in a hundred takes more than half of the node time-out",
			"# find what is slow there; or give all clients a greater --node-timeout, far below the lease:", t.redis("slowlog", "get", "10"))
	}
	if fork, ok := t.count("latest_fork_usec"); ok && time.Duration(fork)*time.Microsecond > limit {
		t.find("latency", Warning, Seen{"fork_s": (time.Duration(fork) * time.Microsecond).Seconds(), "node_timeout_s": limit.Seconds()},
			"while it forks to save its data it answers nobody", "# keep other data off the node, so that there is less to fork")
	}
	t.checkSpikes(limit)
	doctor := t.replies["LATENCY DOCTOR"]
	if doctor.Kind == driver.String && hugePages.MatchString(doctor.Str) {
		t.find("latency", Warning, Seen{"transparent_hugepages": "on"}, "after a fork each write copies 2 MB, which delays it",
			"# as root on its machine:", "echo never > /sys/kernel/mm/transparent_hugepage/enabled", "# and restart the server")
	}
}

var hugePages = regexp.MustCompile(`(?i)detected a non zero amount of anonymous huge pages`)

// checkSpikes looks at the delays that the server has noted by itself.
func (t *target) checkSpikes(limit time.Duration) {
	latest := t.replies["LATENCY LATEST"]
	if latest.Kind != driver.Array {
		t.cannotTell("latency", "what has delayed the server before", "latency", latest)
		return
	}
	for _, event := range latest.Elems {
		if len(event.Elems) < 4 {
			continue
		}
		name, worst := event.Elems[0].Str, time.Duration(event.Elems[3].Int)*time.Millisecond
		if worst > limit {
			t.find("latency", Warning, Seen{"event": name, "worst_s": worst.Seconds(), "latest": time.Unix(event.Elems[1].Int, 0).UTC().Format(time.RFC3339), "node_timeout_s": limit.Seconds()},
				"it answered nobody for longer than the node time-out", "# see LATENCY DOCTOR and SLOWLOG GET for what did it; when that is fixed:", t.redis("latency", "reset", name))
		}
	}
}

// checkQuorumLatency says that locks take too much of their lease to be acquired.
func (e *exam) checkQuorumLatency() {
	l := latency(e.ofQuorum())
	if l == nil || l.P99 <= e.TTL.Seconds()/4 {
		return
	}
	e.find("latency", Unfit, Seen{"quorum_p50_s": l.P50, "quorum_p99_s": l.P99, "ttl_s": e.TTL.Seconds()},
		"a lock has used up a quarter of its lease when it is acquired", "# give all clients a longer --ttl, or nodes that are nearer")
}
