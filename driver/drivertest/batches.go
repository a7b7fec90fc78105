package drivertest

import (
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

var batchCases = []testCase{
	{"a batch keeps its order on one connection", batchOrder},
	{"a batch of 1,000 is answered in full", thousand},
	{"64 callers at once each get their own replies", manyCallers},
	{"commands are left as they are", untouched},
}

func batchOrder(tr *trial) {
	for _, size := range []int{1, 2, 50, 3000} {
		key := "order of " + strconv.Itoa(size)
		var cmds []driver.Command
		var want []driver.Reply
		old := nilReply()
		for i := range size {
			next := strconv.Itoa(i)
			cmds = append(cmds, keyed("SET", key, next, "GET"))
			want = append(want, old)
			old = text(next)
		}
		tr.expect(tr.do(cmds...), want...)
		receipts := tr.server.Receipts(key)
		if len(receipts) != size {
			tr.Fatalf("a batch of %d reached the server as %d commands", size, len(receipts))
		}
		for i, r := range receipts {
			if r.Conn != receipts[0].Conn {
				tr.Fatalf("command %d of a batch of %d came on another connection than the first", i+1, size)
			}
			if r.Args[2] != strconv.Itoa(i) {
				tr.Fatalf("command %d of a batch of %d arrived in place %s", i+1, size, r.Args[2])
			}
		}
	}
}

func thousand(tr *trial) {
	var cmds []driver.Command
	var want []driver.Reply
	for i := range 1000 {
		id := strconv.Itoa(i)
		switch i % 4 {
		case 0:
			cmds, want = append(cmds, keyed("SET", "key "+id, "value "+id, "NX", "PX", "10000")), append(want, text("OK"))
		case 1:
			cmds, want = append(cmds, keyed("GET", "key "+strconv.Itoa(i-1))), append(want, text("value "+strconv.Itoa(i-1)))
		case 2:
			cmds, want = append(cmds, keyed("GET", "missing "+id)), append(want, nilReply())
		case 3:
			cmds, want = append(cmds, keyed("DEL", "key "+strconv.Itoa(i-3))), append(want, number(1))
		}
	}
	tr.expect(tr.do(cmds...), want...)
}

func manyCallers(tr *trial) {
	var callers sync.WaitGroup
	for caller := range 64 {
		callers.Go(func() {
			for round := range 20 {
				id := strconv.Itoa(caller) + "/" + strconv.Itoa(round)
				cmds := []driver.Command{
					keyed("SET", "key "+id, id, "NX", "PX", "10000"),
					keyless("ECHO", "echo "+id),
					keyed("GET", "key "+id),
				}
				out := tr.doPatient(cmds...)
				if out.err != nil {
					tr.Errorf("caller %d of 64, call %d: Do = %v, want no error", caller+1, round+1, out.err)
					return
				}
				tr.expect(out, text("OK"), text("echo "+id), text(id))
			}
		})
	}
	callers.Wait()
}

// untouched shares one slice of commands between callers, so that the race detector
// sees a write that the comparison does not.
func untouched(tr *trial) {
	build := func() []driver.Command {
		return []driver.Command{
			keyed("SET", "shared", "value", "PX", "10000"),
			keyed("GET", "shared"),
			canned("one", "shared"),
			keyless("ECHO", "words"),
		}
	}
	cmds, before := build(), build()
	want := []driver.Reply{text("OK"), text("value"), number(1), text("words")}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			out := tr.doPatient(cmds...)
			if out.err != nil {
				tr.Errorf("Do with commands that other callers use as well = %v, want no error", out.err)
				return
			}
			tr.expect(out, want...)
		})
	}
	callers.Wait()
	for i := range before {
		if !sameCommand(cmds[i], before[i]) {
			tr.Errorf("Do changed command %d from %q to %q", i+1, before[i], cmds[i])
		}
	}
}
