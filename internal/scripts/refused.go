package scripts

import (
	"regexp"
	"strconv"
	"strings"
)

// A place is where a server refused a command of a script, and the command's name.
var (
	place = regexp.MustCompile(`script: ([0-9a-f]{40}), on @user_script:(\d+)`)
	calls = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
)

// Refused finds the command of a script that a server has refused without naming it, in lower case; "": the
// script is none of these. A server does not tell the place where the script itself hands the refusal on:
// only refused GETs are handed on.
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
