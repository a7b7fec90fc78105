package fakenode

import (
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Memory is a record of the restart guard: see internal/memory. Times are in microseconds. The zero
// Memory is none.
type Memory struct {
	ID, For   string
	Age, Last int64
}

// Remember is what the script remember.lua makes of a record, at a server that says this of itself; false:
// nothing.
func (m Memory) Remember(role, history string, now int64, settings string, most, need int64, begins bool) (Memory, bool) {
	known := m.ID == history && m.ID != ""
	switch {
	case role != "master" || history == "" || m.For != "" && m.For != settings:
		return m, false
	case known && m.Age >= need || !known && !begins:
		return m, false
	case known:
		m.Age += max(0, min(now-m.Last, most))
		m.Last = now
		return m, true
	}
	return Memory{history, settings, 0, now}, true
}

// remember runs the script: a key; settings, the most that it adds, the age that votes, and whether the
// client may begin a record.
func (f *Node) remember(args []any) driver.Reply {
	keys, argv := keysAndRest(args)
	if held, _ := f.Get(keys[0]); held.Token != "" {
		return wrongType
	}
	most, _ := strconv.ParseInt(argv[1], 10, 64)
	need, _ := strconv.ParseInt(argv[2], 10, 64)
	after, wrote := f.Memories[keys[0]].Remember(protocol.Field(f.Info, "role:"), protocol.Field(f.Info, "master_replid:"),
		f.Now().UnixMicro(), argv[0], most, need, argv[3] == "1")
	if !wrote {
		return integer(0)
	}
	f.Memories[keys[0]] = after
	return integer(1)
}

// fields are the replies to HMGET.
func (m Memory) fields(names []any) driver.Reply {
	reply := driver.Reply{Kind: driver.Array}
	for _, name := range names {
		field := driver.Reply{}
		if m != (Memory{}) {
			field = bulk(map[any]string{"id": m.ID, "for": m.For, "age": strconv.FormatInt(m.Age, 10), "last": strconv.FormatInt(m.Last, 10)}[name])
		}
		reply.Elems = append(reply.Elems, field)
	}
	return reply
}
