package scripts

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script is its SHA-1
	"encoding/hex"
	"testing"
)

func TestDigestsNameTheirSources(t *testing.T) {
	for digest, script := range byDigest {
		sum := sha1.Sum([]byte(script.Source)) //nolint:gosec // see the import
		if want := hex.EncodeToString(sum[:]); digest != want {
			t.Errorf("the digest of a changed script is %s, not %s:\n%s", want, digest, script.Source)
		}
	}
}

func TestWithSourceReplacesTheDigest(t *testing.T) {
	call := Release.One(nil, "key", "token")
	full := WithSource(call)
	if full.Args[0] != "EVAL" || full.Args[1] != Release.Source || full.Args[3] != "key" {
		t.Errorf("WithSource(%v) = %v: not the same call with the source", call.Args, full.Args)
	}
	if call.Args[0] != "EVALSHA" {
		t.Errorf("WithSource changed the command that other nodes share: %v", call.Args)
	}
}

// Servers before Redis 7.2 do not name what they refuse in a script.
func TestARefusalInAScriptIsNamed(t *testing.T) {
	for message, want := range map[string]string{
		"Unknown Redis command called from script script: " + Release.Digest + ", on @user_script:64.":                             "del",
		"The user executing the script can't run this command or subcommand script: " + Take.Digest + ", on @user_script:128.":     "zadd",
		"The user executing the script can't run this command or subcommand script: " + Release.Digest + ", on @user_script:9999.": "",
		"The user executing the script can't run this command or subcommand script: " + Release.Digest + ", on @user_script:1.":    "",
		"Unknown Redis command called from script script: ffffffffffffffffffffffffffffffffffffffff, on @user_script:1.":            "",
		"Unknown Redis command called from script": "get",
		"unknown command":                          "",
	} {
		if got := Refused(message); got != want {
			t.Errorf("%q is about %q, want %q", message, got, want)
		}
	}
}
