package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A party is callers that all want one key, in processes of their own.
type party struct {
	Contender  string
	Key        string
	Processes  int
	Callers    int           // of each
	Work, Rest time.Duration // with the key, and before they ask again
	TTL        time.Duration // 0 for ttl
	Addrs      []string
}

// meet measures parties that are there at the same time, in a window that begins with a trouble. It
// returns the members of each process, and how many commands a node ran.
func (b *Bench) meet(ctx context.Context, parties []party, trouble Trouble) (members [][]Member, w Window, commands float64) {
	var all children
	defer func() { all.close() }()
	for _, p := range parties {
		p.Addrs = b.Site.Addrs()
		for range p.Processes {
			all.start("crowd", p)
		}
	}
	answers[bool](all) // they are ready
	all.order("start")
	warm, long := time.Second, b.Crowd
	if b.Quick {
		warm, long = 200*time.Millisecond, 300*time.Millisecond
	}
	pause(ctx, warm)
	commands = b.Site.commandsDuring(func() {
		check(trouble.strike(b.Site))
		w.from = now()
		pause(ctx, long)
		w.to = now()
		b.Site.mend(ctx, trouble)
	})
	all.order("stop")
	members = answers[[]Member](all)
	for _, m := range slices.Concat(members...) {
		if m.Err != "" {
			b.Log.Printf("\t%d failed, first: %s", m.Failed, m.Err)
			break
		}
	}
	return members, w, commands
}

// serveCrowd is a process of a party: it says that it is ready, starts its load when it is told to,
// stops it when it is told to, or nobody is there any more, and reports.
func serveCrowd(spec []byte, orders *bufio.Scanner, answers *json.Encoder) {
	var p party
	check(json.Unmarshal(spec, &p))
	session := named(p.Contender).Open(p.Addrs, Setup{Goroutines: p.Callers, TTL: p.TTL})
	load := &Load{Session: session, Callers: p.Callers, Key: p.Key, Wait: true, Work: p.Work, Rest: p.Rest, Turns: true}
	check(answers.Encode(true))
	if orders.Scan() {
		load.Start(context.Background())
		orders.Scan()
		load.Stop()
		check(answers.Encode(load.Members()))
	}
	_ = session.Close() // what a peer has left behind is not asked here
}

// A crowd is a situation of crowdCases: callers in so many processes.
type crowd struct {
	callers, processes int
	trouble            Trouble
}

func (c crowd) title() string {
	if c.processes == 1 {
		return c.trouble.Name
	}
	return join(fmt.Sprintf("%d processes", c.processes), c.trouble.Name)
}

// crowdCase is a case in which callers of a contender all want one key.
func crowdCase(c Case, work time.Duration, who func(*Bench) []Contender, crowds ...crowd) Case {
	c.Run = func(ctx context.Context, b *Bench, t *Table) {
		crowds := slices.Clone(crowds)
		if b.Quick {
			crowds = slices.DeleteFunc(crowds, func(c crowd) bool { return c.processes > crowdProcesses })
		}
		turns(ctx, b.with(who(b)), t, b.fewerRounds(), crowds, func(c Contender, s crowd) {
			if s.processes > 1 && c.Client == "" {
				return // it is in one process alone
			}
			callers := min(s.callers, max(b.Goroutines, s.processes))
			p := party{Contender: c.Name(), Key: crowdKey(), Processes: s.processes, Callers: callers / s.processes, Work: work}
			each, w, commands := b.meet(ctx, []party{p}, s.trouble)
			values := tally(slices.Concat(each...), w)
			values["commands"] = commands / (values["acquisitions"] * w.seconds())
			values["in use"] /= float64(min(permitCount, callers))
			t.Add(Key{c.Name(), callers, s.title()}, values)
		})
	}
	return c
}

func crowdKey() string { return fmt.Sprintf("bench:%016x", time.Now().UnixNano()) }

// Member is what one caller of a load that keeps its turns has to report.
type Member struct {
	Turns  []Turn `json:"turns"`
	Failed int    `json:"failed,omitempty"`
	Err    string `json:"err,omitempty"` // the first failure
}

// Turn is one time that a caller had the lock: when it asked for it, got it, and was
// about to release it. Got is 0 in the last one if it was still waiting at the end.
type Turn struct {
	Asked moment `json:"asked"`
	Got   moment `json:"got"`
	Left  moment `json:"left"`
}

func (m *Member) add(turn Turn, err error) {
	if err == nil {
		m.Turns = append(m.Turns, turn)
		return
	}
	m.Failed++
	m.Err = cmp.Or(m.Err, err.Error())
}

// moment is a time on the machine's monotonic clock in nanoseconds, which all of its
// processes share. Go does not show what it has of it in a time.Time.
type moment int64

var began, beganAt = time.Now(), monotonic()

func monotonic() moment {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)) // every system has it
	return moment(t.Nano())
}

// now makes no system call.
func now() moment { return beganAt + moment(time.Since(began)) }

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }

// crowdColumns are those of cases in which one at a time has the lock.
var crowdColumns = []string{"acquisitions", "changes", "wait p50", "wait p99", "wait max", "jain", "commands", "most", "failed"}

// Window is a part of the time in which a crowd was at work.
type Window struct{ from, to moment }

func (w Window) has(m moment) bool { return m >= w.from && m < w.to }

func (w Window) seconds() float64 { return w.to.sub(w.from).Seconds() }

// tally says how the members fared in the window: the turns that began in it. A holder
// that gets the lock again right away has served nobody, so what counts is how often
// the lock changed hands. The longest wait may be one that had not ended when the
// window did. In use is how many held at once on average, and most is how many did at most.
func tally(members []Member, w Window) map[string]float64 {
	type owned struct {
		Turn
		owner int
	}
	var all []owned
	var longest, held time.Duration
	values := map[string]float64{"failed": 0}
	for i, m := range members {
		values["failed"] += float64(m.Failed)
		for _, turn := range m.Turns {
			if turn.Got != 0 {
				all = append(all, owned{turn, i})
				held += max(0, min(turn.Left, w.to).sub(max(turn.Got, w.from)))
			}
			if (turn.Got == 0 || turn.Got >= w.to) && turn.Asked < w.to {
				longest = max(longest, w.to.sub(turn.Asked))
			}
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.Got, b.Got) })

	var waits latencies
	var changes, most int
	var ends []moment // of those who hold
	shares := make([]float64, len(members))
	for i, turn := range all {
		ends = append(slices.DeleteFunc(ends, func(end moment) bool { return end <= turn.Got }), turn.Left)
		most = max(most, len(ends))
		if !w.has(turn.Got) {
			continue
		}
		waits.add(turn.Got.sub(turn.Asked))
		shares[turn.owner]++
		if i > 0 && all[i-1].owner != turn.owner {
			changes++
		}
	}
	values["acquisitions"] = float64(waits.count) / w.seconds()
	values["changes"] = float64(changes) / w.seconds()
	values["wait max"] = max(longest, waits.longest).Seconds()
	values["jain"] = jain(shares)
	values["in use"] = held.Seconds() / w.seconds()
	values["most"] = float64(most)
	if waits.count > 0 {
		values["wait p50"] = waits.quantile(0.5).Seconds()
		values["wait p99"] = waits.quantile(0.99).Seconds()
	}
	return values
}

// jain is Jain's index of fairness: 1 where all have the same share, and 1/n where one
// of n has everything. It is not a number where nobody has any.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(shares)) * squares)
}
