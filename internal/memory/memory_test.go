package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
)

func TestALookIsJudgedBySettingsFirst(t *testing.T) {
	settings := memory.Settings{Longest: 8 * time.Second, NodeSet: 7, Size: 3}
	rules, need := memory.New(settings), 9*time.Second+time.Millisecond
	here := memory.Server{Role: "master", History: strings.Repeat("0a", 20)}
	own := memory.Record{ID: here.History, For: "8000 7:3", Age: need}
	for what, tt := range map[string]struct {
		change func(s *memory.Server, r *memory.Record)
		want   memory.State
		left   time.Duration
	}{
		"an old memory":                        {func(*memory.Server, *memory.Record) {}, memory.Votes, 0},
		"a younger one":                        {func(_ *memory.Server, r *memory.Record) { r.Age -= time.Microsecond }, memory.Young, time.Microsecond},
		"one that has to grow longer":          {func(_ *memory.Server, r *memory.Record) { r.Age = -time.Second }, memory.Young, need + time.Second},
		"no record":                            {func(_ *memory.Server, r *memory.Record) { *r = memory.Record{} }, memory.Missing, need},
		"another history":                      {func(_ *memory.Server, r *memory.Record) { r.ID = strings.Repeat("b", 40) }, memory.Forgot, need},
		"a longer TTL":                         {func(_ *memory.Server, r *memory.Record) { r.For = "9000 7:3" }, memory.Others, 0},
		"another set, and another history":     {func(_ *memory.Server, r *memory.Record) { r.For, r.ID = "8000 8:3", "" }, memory.Others, 0},
		"another number of nodes":              {func(_ *memory.Server, r *memory.Record) { r.For = "8000 7:5" }, memory.Others, 0},
		"a replica":                            {func(s *memory.Server, _ *memory.Record) { s.Role = "slave" }, memory.Replica, 0},
		"a server that does not say its role":  {func(s *memory.Server, _ *memory.Record) { s.Role = "" }, memory.Nameless, 0},
		"a server that names no history":       {func(s *memory.Server, r *memory.Record) { s.History, r.ID = "", "" }, memory.Nameless, 0},
		"a server whose history is no history": {func(s *memory.Server, r *memory.Record) { s.History = strings.Repeat("x", 40); r.ID = s.History }, memory.Nameless, 0},
	} {
		s, r := here, own
		tt.change(&s, &r)
		if state, left := rules.Judge(s, r); state != tt.want || left != tt.left {
			t.Errorf("%s: %d, %v left, want %d, %v", what, state, left, tt.want, tt.left)
		}
	}
}

func TestAShortTTLHasACapThatAFarClientMeets(t *testing.T) {
	if s := (memory.Settings{Longest: 80 * time.Millisecond}); s.Cap() != 50*time.Millisecond || s.Need() != 131*time.Millisecond {
		t.Errorf("for 80ms the cap is %v and the need %v, want 50ms and 131ms", s.Cap(), s.Need())
	}
}

func FuzzSettings(f *testing.F) {
	for _, text := range []string{"8000 7:3", "8000 7:3 ", "08 7:3", "1 0:1", "-1 0:1", "9223372036854775807 0:3", "1 18446744073709551615:3", "to 1 0:3", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := memory.Parse(text)
		if ok && (s.String() != text || s.Longest <= 0 || s.Size <= 0 || s.Need() < s.Longest) {
			t.Errorf("%q is read as %+v", text, s)
		}
		if age := memory.Age(text); age.Abs() > 1<<53*time.Microsecond {
			t.Errorf("%q is an age of %v", text, age)
		}
	})
}
