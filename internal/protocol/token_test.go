package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestATokenShowsFourDigitsAndNothingElseDoes(t *testing.T) {
	hex := "a3f1" + strings.Repeat("0", 28)
	for token, want := range map[string]string{
		"ql:" + hex:               "a3f1",
		"ql:" + hex + ":pod-7":    "a3f1",
		"ql:" + hex + "@k0:pod-7": "a3f1",
		"ql:" + hex + "0":         "",
		"ql:a3f1":                 "",
		hex:                       "",
		SharedValue:               "",
		RevokedPrefix + hex:       "",
		"ql:" + hex[:31] + "x":    "",
		"":                        "",
		TokenMark:                 "",
		"ql:g" + hex[1:] + ":pod": "",
	} {
		if got := Digits(token); got != want {
			t.Errorf("the digits of %q are %q, want %q", token, got, want)
		}
	}
}

func TestATokenHasItsOwnerAndSinceWhen(t *testing.T) {
	hex := "ql:" + strings.Repeat("0", 32)
	for token, want := range map[string]struct {
		owner string
		since int64 // in milliseconds; 0: not known
	}{
		hex:                             {"", 0},
		hex + ":pod-7":                  {"pod-7", 0},
		hex + ":pod:7@k":                {"pod:7@k", 0},
		hex + "@10:pod-7":               {"pod-7", 36},
		hex + "@10:a:b":                 {"a:b", 36},
		hex + "@:pod-7":                 {"", 0},
		hex + "@10":                     {"", 0},
		hex + "@10:":                    {"", 0},
		hex + "@10:\x1b[2J":             {"", 0},
		hex + "@-1:pod-7":               {"pod-7", 0},
		hex + "@zzzzzzzzzzzzzzzz:pod-7": {"pod-7", 0},
		hex + "10:pod-7":                {"", 0},
		"foreign@10:pod-7":              {"", 0},
	} {
		var since int64
		if at := Since(token); !at.IsZero() {
			since = at.UnixMilli()
		}
		if owner := Owner(token); owner != want.owner || since != want.since {
			t.Errorf("of %q the owner is %q since %d, want %q since %d", token, owner, since, want.owner, want.since)
		}
	}
	before := time.Now().Truncate(time.Millisecond)
	token := Random(func() [16]byte { return [16]byte{} }).Token("pod-7")
	if since := Since(token); Owner(token) != "pod-7" || Digits(token) != "0000" || since.Before(before) || since.After(time.Now()) {
		t.Errorf("a new token %q has the owner %q, and is of %v", token, Owner(token), since)
	}
}

func TestATombstoneIsToldFromTokensAndHasItsReason(t *testing.T) {
	for _, tt := range []struct {
		value, reason string
		ok            bool
	}{
		{RevokedPrefix + "1f:stuck since noon: see 42", "stuck since noon: see 42", true},
		{RevokedPrefix + "1f", "", true},
		{RevokedPrefix + "1f:\x1b[2J", "", true},
		{RevokedPrefix, "", true},
		{"ql:revoked", "", false},
		{"ql:" + strings.Repeat("a", 32) + ":revoked:1f", "", false},
	} {
		if reason, ok := Revoked(tt.value); reason != tt.reason || ok != tt.ok {
			t.Errorf("Revoked(%q) = %q, %t, want %q, %t", tt.value, reason, ok, tt.reason, tt.ok)
		}
	}
}
