package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/alert"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// settingsAsked are the settings of a server that matter.
var settingsAsked = []string{
	"appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error", "repl-backlog-ttl", "timeout", "tcp-keepalive",
	"client-output-buffer-limit", "tls-cert-file", "tls-key-file",
}

// patience is how long a node has to answer. At first, while the connection is made, it has more of
// it if clients give it more, but not so much that nothing else could be looked at.
const (
	patience = time.Second
	atFirst  = 3 * patience / 2
)

// look asks the node what it is, in one round trip.
func (t *target) look(ctx context.Context) {
	e := t.exam
	cmds := []driver.Command{
		command("INFO"), command("CLIENT", "INFO"), command("ACL", "WHOAMI"), command("CLUSTER", "INFO"),
		command("LATENCY", "LATEST"), command("LATENCY", "DOCTOR"),
	}
	for _, name := range settingsAsked {
		cmds = append(cmds, command("CONFIG", "GET", name))
	}
	cmds = append(cmds, e.askRecord())
	for _, key := range e.formerKeys() {
		cmds = append(cmds, onKey("GET", key))
	}
	replies, err := t.ask(ctx, min(max(patience, 4*e.NodeTimeout), atFirst), cmds...)
	if t.err = err; err != nil {
		return
	}
	t.replies = make(map[string]driver.Reply, len(cmds))
	for i, cmd := range cmds {
		t.replies[spell(cmd)] = replies[i]
	}
	t.info = fields(t.replies["INFO"].Str, ":")
	if who := t.replies["ACL WHOAMI"]; who.Kind == driver.String {
		t.user = who.Str
	} else if user, ok := fields(strings.ReplaceAll(t.replies["CLIENT INFO"].Str, " ", "\n"), "=")["user"]; ok {
		t.user = user
	}
	t.report.Server = Printable(t.server())
}

// spell is a command as one types it.
func spell(cmd driver.Command) string {
	words := make([]string, len(cmd.Args))
	for i, arg := range cmd.Args {
		words[i] = arg.(string)
	}
	return strings.Join(words, " ")
}

// strayKeys is how many keys show whether a node serves those of all slots.
const strayKeys = 100

// stray asks a node of a Redis Cluster about keys of many slots. A client that knows the whole
// Cluster finds their servers, at the latest when it is asked again.
func (t *target) stray(ctx context.Context) {
	if t.info["cluster_enabled"] != "1" {
		return
	}
	cmds := make([]driver.Command, strayKeys)
	for i := range cmds {
		cmds[i] = onKey("GET", t.trial.scratch+strconv.Itoa(i))
	}
	for range 2 {
		replies, err := t.ask(ctx, patience, cmds...)
		if err != nil {
			t.fail(ctx, err)
			return
		}
		t.strays = 0
		for _, reply := range replies {
			if protocol.Says(reply, "MOVED") {
				t.strays, t.moved = t.strays+1, reply.Str
			}
		}
	}
}

// fields reads lines of a name and a value.
func fields(text, separator string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			all[name] = value
		}
	}
	return all
}

// server names the server and its version: some call themselves by the version of others.
func (t *target) server() string {
	for _, family := range []string{"valkey", "redict", "dragonfly", "kvrocks", "redis"} {
		if version := t.info[family+"_version"]; version != "" {
			return family + " " + version
		}
	}
	return ""
}

// family is the kind of the server.
func (t *target) family() string {
	name, _, _ := strings.Cut(t.report.Server, " ")
	return name
}

// locate finds out where the node is: by its name's addresses, and by what it says itself of the
// connection. All of the loopback are one.
func (t *target) locate(ctx context.Context) {
	host, _, err := net.SplitHostPort(t.Name)
	if t.endpoint != nil && t.endpoint.Network == "tcp" {
		host, _, err = net.SplitHostPort(t.endpoint.Addr)
	}
	switch {
	case t.endpoint == nil:
	case t.endpoint.Network == "unix":
		t.addresses = []string{loopback}
		return
	case t.endpoint.Master != "": // its Sentinels may look after other nodes as well
		return
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		found, _ := net.DefaultResolver.LookupHost(ctx, host) // none: the dial says why
		for _, text := range found {
			t.addresses = append(t.addresses, place(text))
		}
	}
	slices.Sort(t.addresses)
	t.addresses = slices.Compact(t.addresses)
}

const loopback = "loopback"

// place is an address as it is compared.
func place(text string) string {
	if address, err := netip.ParseAddr(text); err == nil && address.Unmap().IsLoopback() {
		return loopback
	}
	return text
}

// certificate returns the certificate of the node whose time ends first.
func (t *target) certificate(ctx context.Context) (ends time.Time, ok bool) {
	if t.endpoint == nil || t.endpoint.TLS == nil {
		return ends, false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := (&tls.Dialer{Config: t.endpoint.TLS}).DialContext(ctx, t.endpoint.Network, t.endpoint.Addr)
	if err != nil {
		return ends, false // the driver says why
	}
	defer func() { _ = conn.Close() }()
	for _, c := range conn.(*tls.Conn).ConnectionState().PeerCertificates {
		if !ok || c.NotAfter.Before(ends) {
			ends, ok = c.NotAfter, true
		}
	}
	return ends, ok
}

// ownCertificate returns when the certificate ends that the client shows the node.
func (t *target) ownCertificate() (ends time.Time, ok bool) {
	if t.endpoint == nil || t.endpoint.TLS == nil || t.endpoint.TLS.GetClientCertificate == nil {
		return ends, false
	}
	pair, err := t.endpoint.TLS.GetClientCertificate(new(tls.CertificateRequestInfo))
	if err != nil || pair.Leaf == nil {
		return ends, false
	}
	return pair.Leaf.NotAfter, true
}

// speaksOtherwise reports whether a node that should speak TLS does not, or does where it should
// not. A server without TLS takes the beginning of a handshake for a command that is not over, and
// waits; one with TLS takes a command for a bad handshake, and hangs up.
func (t *target) speaksOtherwise(ctx context.Context) bool {
	var reply *driver.ServerError
	if t.endpoint == nil || errors.As(t.err, &reply) || errors.Is(t.err, context.DeadlineExceeded) != (t.endpoint.TLS != nil) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, t.endpoint.Network, t.endpoint.Addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if t.endpoint.TLS == nil {
		err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // nothing is said over it
		return err == nil || alert.Of(err) != ""                                             // it may want a certificate of the client's
	}
	_ = conn.SetDeadline(time.Now().Add(patience / 2)) // which fails as the next call does
	_, _ = conn.Write([]byte("PING\r\n"))
	first := make([]byte, 1)
	n, _ := conn.Read(first)
	return n == 1 && (first[0] == '+' || first[0] == '-')
}
