package history

import "fmt"

// A Violation is what a log shows and locks rule out.
type Violation struct {
	Rule string
	Key  string
	Span // the shortest stretch that shows it
	What string
}

func (v Violation) String() string { return fmt.Sprintf("%s: key %q: %s", v.Rule, v.Key, v.What) }
