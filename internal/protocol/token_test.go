package protocol

import (
	"strings"
	"testing"
)

func TestATokenShowsFourDigitsAndNothingElseDoes(t *testing.T) {
	hex := "a3f1" + strings.Repeat("0", 28)
	for token, want := range map[string]string{
		"ql:" + hex:               "a3f1",
		"ql:" + hex + ":pod-7":    "a3f1",
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
