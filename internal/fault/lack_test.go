package fault

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// Servers word it in several ways that they lack a command: a script's, which they do not name, or a client's.
func TestACommandThatAServerLacksIsTold(t *testing.T) {
	for text, want := range map[string]Lack{
		"ERR Unknown Redis command called from script script: 0, on @user_script:1.":  {Unknown: true},
		"ERR Unknown Redict command called from script script: 0, on @user_script:1.": {Unknown: true},
		"ERR unknown command 'WAIT', with args beginning with: '0'":                   {"wait", true},
		"NOPERM User u has no permissions to run the 'client|info' command":           {Command: "client|info"},
	} {
		reply := driver.Reply{Kind: driver.Failure, Str: text}
		if got, ok := LackOf(reply.Err().(*driver.ServerError)); !ok || got != want { //nolint:errorlint,forcetypeassert // its type
			t.Errorf("%q: %+v, %v; want %+v", text, got, ok, want)
		}
	}
}
