package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestNowGoesOnIfTheKeyIsTypedOnATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	held := must(s.locker.Acquire(s.ctx(), "42"))(t)
	s.everywhere(prefix + "42")
	for _, tt := range []struct {
		typed string
		code  int
		want  string
	}{
		{"43\n", exitUsage, held.Token()},
		{"\x04", exitUsage, held.Token()}, // the end of the input
		{"42\n", exitOK, ""},
	} {
		var out, talk bytes.Buffer
		keyboard, screen := terminal(t)
		if _, err := keyboard.WriteString(tt.typed); err != nil {
			t.Fatal(err)
		}
		tl := &tool{in: screen, out: &out, talk: &talk, getenv: having(s.env()...)}
		code := tl.run(t.Context(), []string{"release", "42", "--force", "--now"})
		if value := s.at(prefix + "42")[0]; code != tt.code || value != tt.want || !strings.Contains(talk.String(), "Type the key") {
			t.Errorf("with %q typed release --now = %d, %q, and the key is %.11q; want code %d", tt.typed, code, talk.String(), value, tt.code)
		}
	}
}
