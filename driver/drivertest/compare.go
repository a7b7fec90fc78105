package drivertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// same compares what matters to a reply's kind; the other fields may hold anything.
func same(a, b driver.Reply) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case driver.Integer:
		return a.Int == b.Int
	case driver.String, driver.Failure:
		return a.Str == b.Str
	case driver.Array:
		return slices.EqualFunc(a.Elems, b.Elems, same)
	}
	return true
}

// show writes a reply into a message.
func show(r driver.Reply) string {
	switch r.Kind {
	case driver.Nil:
		return "nil"
	case driver.Integer:
		return fmt.Sprintf("integer %d", r.Int)
	case driver.String:
		return "string " + quote(r.Str)
	case driver.Failure:
		return "error reply " + quote(r.Str)
	case driver.Array:
		elems := make([]string, len(r.Elems))
		for i, elem := range r.Elems {
			elems[i] = show(elem)
		}
		return "array [" + strings.Join(elems, ", ") + "]"
	}
	return fmt.Sprintf("a reply of unknown kind %d", r.Kind)
}

// quote shortens what no one would read to the end.
func quote(s string) string {
	const most = 80
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
}
