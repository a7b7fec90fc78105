package driver

import (
	"errors"
	"strings"
	"testing"
)

func TestAnErrorReplyKeepsItsCodeWord(t *testing.T) {
	for _, tt := range []struct {
		line, code, message string
	}{
		{"READONLY You can't write against a read only replica.", "READONLY", "You can't write against a read only replica."},
		{"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT", "No matching script. Please use EVAL."},
		{"ERR unknown command 'DELIFEQ'", "ERR", "unknown command 'DELIFEQ'"},
		{"OOM", "OOM", ""}, // a script may return a code word alone
		{"Protocol error", "ERR", "Protocol error"},
		{"lowercase", "ERR", "lowercase"},
		{" LEADING blank", "ERR", " LEADING blank"},
		{"", "ERR", ""},
	} {
		err := Reply{Kind: Failure, Str: tt.line}.Err()
		var server *ServerError
		if !errors.As(err, &server) {
			t.Errorf("the reply %q gives %v, want a *ServerError", tt.line, err)
			continue
		}
		if server.Code != tt.code || server.Message != tt.message {
			t.Errorf("the reply %q gives the code %q and the message %q, want %q and %q", tt.line, server.Code, server.Message, tt.code, tt.message)
		}
		if text := err.Error(); !strings.HasPrefix(text, tt.code) || !strings.HasSuffix(text, strings.TrimSpace(tt.line)) {
			t.Errorf("the reply %q reads %q, want the code word and the server's own line", tt.line, text)
		}
	}
}

func TestOnlyAFailureIsAnError(t *testing.T) {
	for _, kind := range []Kind{Nil, Integer, String, Array} {
		if err := (Reply{Kind: kind, Str: "ERR this is a value"}).Err(); err != nil {
			t.Errorf("a reply of kind %d is the error %v, want none", kind, err)
		}
	}
	if (Reply{}).Kind != Nil {
		t.Error("the zero Reply is not Nil")
	}
}
