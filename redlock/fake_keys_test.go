package redlock

import (
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
)

// holdAll runs the script of that name: how many keys; keys, sets of counters and marks; token,
// milliseconds, how many are keys, number, and with marks a ticket, a name and how long marks stay.
func (f *fakeNode) holdAll(args []any) driver.Reply {
	all, _ := strconv.Atoi(args[0].(string))
	names, argv := args[1:1+all], args[1+all:]
	arg := func(i int) string { return argv[i].(string) }
	count, _ := strconv.Atoi(arg(2))
	keys, sets, marks, carried := names[:count], []any(nil), []any(nil), []any(nil)
	if arg(3) != "0" {
		sets = names[count : 2*count]
	}
	if len(argv) > 4 {
		carried, marks = names[count+len(sets):all-count], names[all-count:]
	}
	waits := make(map[string]bool) // for the caller
	for _, key := range carried {
		if _, _, by, ok := f.wanted(key.(string)); ok {
			waits[by] = true
		}
	}
	integer := func(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }
	var way []driver.Reply
	blocks := func(i int, by fakeKey) {
		if way == nil {
			way = []driver.Reply{
				integer(int64(i + 1)),
				{Kind: driver.String, Str: by.token},
				integer(by.until.Sub(f.now()).Milliseconds()), integer(f.now().UnixMicro()),
			}
		}
	}
	for i, key := range keys {
		switch held, ok := f.get(key.(string)); {
		case ok && held.token == aList:
			return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{integer(int64(i + 1))}}
		case ok && held.token != arg(0):
			blocks(i, held)
		}
	}
	before := make([]bool, len(marks))
	for i, key := range marks {
		mark, since, by, ok := f.wanted(key.(string))
		if !ok || by == arg(5) || waits[by] {
			continue
		}
		ticket, _ := strconv.ParseInt(arg(4), 10, 64)
		if before[i] = ticket == 0 || since < ticket || since == ticket && by < arg(5); before[i] {
			if held, ok := f.get(keys[i].(string)); !ok || held.token != arg(0) {
				blocks(i, mark)
			}
		}
	}
	for i, key := range marks {
		switch mark, _ := f.get(key.(string)); {
		case arg(6) != "0" && !before[i]:
			f.set(key.(string), fmt.Sprintf("ql:wanted %s %s", arg(4), arg(5)), arg(6))
		case arg(6) == "0" && mark.token == fmt.Sprintf("ql:wanted %s %s", arg(4), arg(5)):
			delete(f.keys, key.(string))
		}
	}
	if way != nil {
		return driver.Reply{Kind: driver.Array, Elems: way}
	}
	accepted := int64(1)
	if !f.accepts(sets, keys, arg(3)) {
		accepted = 0
	}
	for _, key := range keys {
		f.lease([]any{key, arg(0), arg(1)})
	}
	return integer(accepted)
}

// wanted reads the mark of one who waits for several keys or permits: since when, and who.
func (f *fakeNode) wanted(key string) (mark fakeKey, since int64, by string, ok bool) {
	mark, ok = f.get(key)
	n, _ := fmt.Sscanf(mark.token, "ql:wanted %d %s", &since, &by)
	return mark, since, by, ok && n == 2
}
