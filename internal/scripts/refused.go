package scripts

import (
	"regexp"
	"strconv"
	"strings"
)

// place is where a script was when a server refused a command of it, and calls what it called there.
var (
	place = regexp.MustCompile(`script: ([0-9a-f]{40}), on @user_script:(\d+)`)
	calls = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
)

// Refused finds the command of a script that a server has refused without naming it, in lower case;
// "": it is none of these scripts. A server says nothing of the place where the script itself hands
// the refusal on, which it does of GET alone.
func Refused(message string) string {
	at := place.FindStringSubmatch(message)
	switch {
	case at == nil && strings.Contains(message, "script"):
		return "get"
	case at == nil:
		return ""
	}
	script := byDigest[at[1]]
	number, _ := strconv.Atoi(at[2]) // digits
	if script == nil {
		return ""
	}
	lines := strings.Split(script.Source, "\n")
	if number < 1 || number > len(lines) {
		return ""
	}
	if called := calls.FindStringSubmatch(lines[number-1]); called != nil {
		return strings.ToLower(called[1])
	}
	return ""
}
