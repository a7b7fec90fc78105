package fault

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/alert"
)

// A refusal is the meaning of a server's code for a client.
type refusal struct {
	lasts  bool   // a wait ends: the cause does not pass by itself, nor by operators' daily work
	advice string // what to do; "": the code explains itself
}

// refusals are the codes of servers' refusals. A code outside of the table passes.
var refusals = map[string]refusal{
	"READONLY":    {false, "the node is a replica: give the master's address"}, // a failover makes it the master, or its address leads to the new one
	"LOADING":     {false, ""},                                                 // until it has read its file
	"BUSY":        {false, ""},                                                 // until the script ends, or is killed
	"TRYAGAIN":    {false, ""},                                                 // until the slot has moved
	"CLUSTERDOWN": {false, ""},                                                 // until the cluster has settled a failover
	"MASTERDOWN":  {false, ""},                                                 // the same of a replica
	"NOREPLICAS":  {false, ""},                                                 // until enough replicas are connected

	"NOPERM":    {true, "the user's ACL forbids it: allow " + acl.Locks.String()},                            // somebody has to change the user
	"OOM":       {true, "the node is out of memory: raise its maxmemory, or give locks a node of their own"}, // what fills it is not ours
	"MISCONF":   {true, "the node cannot write its snapshots and so refuses writes: fix its disk"},
	"NOAUTH":    {true, "the node wants a password: give one in the URL or the client's options"},
	"WRONGPASS": {true, "user or password is wrong"},
	"DENIED":    {true, "the server takes connections from its own machine only: give it a password (requirepass) or users, and bind it to the addresses that clients may use; on a network of its own, protected-mode no will do"},
	"WRONGTYPE": {true, "the key holds something that is not a lock: use another key or a key prefix"}, // nobody else's key goes away for a lock
}

// ofServer says what to do about a server's refusal, or "".
func ofServer(reply *driver.ServerError) string {
	if l, ok := LackOf(reply); ok && l.Command != "" {
		return l.Advice(l.Command)
	}
	if reply.Code == "NOPERM" {
		switch {
		case strings.Contains(reply.Message, " channel"):
			return "the user's ACL forbids it: allow &" + acl.WakeUps.Channels[0]
		case strings.Contains(reply.Message, " key"):
			return "the user's ACL forbids the key: allow ~KEYS, the pattern of your keys, with their prefix"
		}
	}
	if strings.HasPrefix(reply.Message, "max number of clients") {
		return "the node has as many connections as it takes: raise its maxclients, or see who keeps so many (CLIENT LIST)"
	}
	return refusals[reply.Code].advice
}

// An advised error is a node's error, with what to do about it.
type advised struct {
	error
	advice string
}

func (e *advised) Error() string { return e.error.Error() + " (" + e.advice + ")" }
func (e *advised) Unwrap() error { return e.error }

// Advise adds to a node's error what to do about it.
func Advise(err error) error {
	if what := remedy(err); what != "" {
		return With(err, what)
	}
	return err
}

// With adds advice to an error of a node.
func With(err error, advice string) error { return &advised{err, advice} }

// remedy says what to do about a node's error, or "".
func remedy(err error) string {
	var reply *driver.ServerError
	var network *net.OpError
	switch {
	case errors.As(err, &reply):
		return ofServer(reply)
	case errors.Is(err, driver.ErrClosed):
		return "the last Locker on this node was closed: make the nodes anew"
	}
	if what := ofTLS(err); what != "" {
		return what
	}
	if errors.As(err, &network) && network.Op == "dial" {
		return "is the server up, and is this its address?"
	}
	return ""
}

// ofTLS says what to do where client and server do not agree on TLS, or "".
func ofTLS(err error) string {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		invalid     x509.CertificateInvalidError
		plain       tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &host):
		return "the server's certificate is for other names: give the one that it has as ?servername= in the URL, or in the client's TLS configuration"
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &invalid):
		return "the server's certificate is not trusted: give the authority that has signed it as ?ca=FILE in the URL, or in the client's TLS configuration"
	case errors.As(err, &plain):
		return "the server does not speak TLS at this port: use redis://, or its TLS port"
	case errors.Is(err, driver.ErrTLS):
		return "the server speaks TLS at this port: use rediss://"
	}
	return alert.Advice(alert.Of(err))
}

// A passing error says that a node is unfit for now: it may become fit without a change of the client, or of
// its user's rights.
type passing struct{ error }

func (e *passing) Unwrap() error { return e.error }

// Passing makes the error of an unfit node one that waiters wait out.
func Passing(err error) error { return &passing{err} }

// Lasting reports whether waiting cannot fix err: somebody must change a server's users, the client or the key first.
func Lasting(err error) bool {
	var now *passing
	var reply *driver.ServerError
	switch {
	case errors.As(err, &now):
		return false
	case errors.Is(err, ErrNode), errors.Is(err, ErrNodeSet), errors.Is(err, ErrPermits), errors.Is(err, driver.ErrClosed), ofTLS(err) != "":
		return true
	case errors.As(err, &reply):
		_, lacks := LackOf(reply)
		return lacks || refusals[reply.Code].lasts
	}
	return false
}
