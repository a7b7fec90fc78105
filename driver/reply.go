package driver

import "strings"

// Kind is the type of a [Reply].
type Kind uint8

// The kinds of a reply. RESP3's further types map to these: a boolean is an
// Integer (0 or 1), a double or a big number is a String, a map is an Array of
// keys and values in turn, a set is an Array.
const (
	Nil     Kind = iota // there is no such value
	Integer             // in Int
	String              // a simple or a bulk string, in Str
	Array               // in Elems
	Failure             // an error reply of the server, in Str: see [Reply.Err]
)

// Reply is what a node answered to one command.
type Reply struct {
	Kind  Kind
	Int   int64
	Str   string
	Elems []Reply
}

// Err returns the server's error reply as a [*ServerError], and nil for a reply of
// any other kind. Arguments that the server repeats are left out.
func (r Reply) Err() error {
	if r.Kind != Failure {
		return nil
	}
	line, _, _ := strings.Cut(r.Str, repeated)
	code, message, _ := strings.Cut(line, " ")
	if code == "" || code != strings.ToUpper(code) {
		return &ServerError{Code: "ERR", Message: line}
	}
	return &ServerError{Code: code, Message: message}
}

// repeated comes before the arguments of a command that a server does not know. A token, or a
// password, may be among them, and does not belong in an error.
const repeated = ", with args beginning with"

// ServerError is an error reply: the node is there, has understood, and refuses.
type ServerError struct {
	Code    string // the code word: READONLY, NOSCRIPT, OOM, …; ERR where the line has none
	Message string // the rest of the line
}

func (e *ServerError) Error() string {
	return strings.TrimSpace(e.Code + " " + e.Message)
}
