package inspect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/alert"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// The times before a certificate ends.
const (
	endsSoon = 30 * 24 * time.Hour
	endsNow  = 3 * 24 * time.Hour
)

// reached says why the node cannot be examined, and how safe the way to it is.
func (t *target) reached() {
	if t.err == nil && t.info["loading"] == "1" {
		t.find("reach", Warning, Seen{"loading": t.info["loading_eta_seconds"] + "s"}, "it is loading its data, and has no vote meanwhile",
			"# wait; then look again")
	}
	if t.err != nil {
		t.unreached()
		return
	}
	if longest, limit := t.trial.longest, t.exam.NodeTimeout; longest > limit {
		t.find("reach", Warning, Seen{"longest_s": longest.Seconds(), "node_timeout_s": limit.Seconds()},
			"it did not answer for longer than the node time-out: who asks then gets no vote from it",
			"# see what stops or delays it, or this machine; or give all clients a greater --node-timeout, far below the lease:", t.redis("slowlog", "get", "10"))
	}
	if t.certified {
		t.ends("certificate_ends", t.expires, "when the certificate ends nobody can connect to the node", t.newCertificate()...)
	}
	if own, ok := t.ownCertificate(); ok {
		t.ends("client_certificate_ends", own, "when the client's own certificate ends nobody can connect to the node with it",
			"# renew the files that cert= and key= name in the URL of "+t.Name+"; programs read them again when they connect")
	}
	if t.endpoint == nil || t.endpoint.Network == "unix" {
		return
	}
	certified := t.endpoint.TLS != nil && t.endpoint.TLS.GetClientCertificate != nil // with which a client shows who it is
	if t.endpoint.Password == "" && !certified && len(t.addresses) > 0 && !slices.Contains(t.addresses, loopback) {
		t.find("auth", Warning, Seen{"user": t.locksUser(), "address": strings.Join(t.addresses, " ")},
			"whoever reaches its address can delete locks: it wants no password",
			"# write a password into the file PASSWORD, and into the URLs of all clients; then:",
			t.redis("-x", "config", "set", "requirepass")+" < PASSWORD")
	}
	if t.endpoint.TLS == nil && slices.ContainsFunc(t.addresses, public) {
		t.find("tls", Warning, Seen{"address": strings.Join(t.addresses, " ")},
			"passwords and tokens go over a public network in plain text",
			"# serve TLS (tls-port, tls-cert-file and tls-key-file in redis.conf), and give clients the URL rediss://"+t.endpoint.Addr)
	}
}

// ends says that a certificate ends soon, if it does.
func (t *target) ends(what string, expires time.Time, why string, mend ...string) {
	left, severity := time.Until(expires), Warning
	if left < endsNow {
		severity = Unfit
	}
	if left < endsSoon {
		t.find("tls", severity, Seen{what: expires.UTC().Format(time.RFC3339)}, why, mend...)
	}
}

// newCertificate is how a server takes a new one.
func (t *target) newCertificate() []string {
	cert, _, ok1 := t.config("tls-cert-file")
	key, _, ok2 := t.config("tls-key-file")
	if !ok1 || !ok2 || cert == "" {
		return []string{"# renew the certificate of " + t.Name}
	}
	return []string{
		"# renew the certificate in " + cert + "; then the server takes it without a restart:",
		t.redis("config", "set", "tls-cert-file", cert, "tls-key-file", key),
	}
}

// public reports whether an address is of the internet.
func public(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.IsGlobalUnicast() && !address.IsPrivate()
}

// unreached says why the node does not answer.
func (t *target) unreached() {
	var (
		reply     *driver.ServerError
		handshake tls.RecordHeaderError
		untrusted *tls.CertificateVerificationError
		host      x509.HostnameError
	)
	seen := Seen{"error": fault.Advise(t.err).Error()}
	switch {
	case errors.As(t.err, &reply) && (reply.Code == "NOAUTH" || reply.Code == "WRONGPASS" || reply.Code == "NOPERM"):
		t.find("auth", Warning, seen, "it refuses the user, so it has no vote",
			fmt.Sprintf("# give all clients the user and password of %s: redis://USER:PASSWORD@%s", t.Name, t.Name))
	case t.otherwise && t.endpoint.TLS == nil:
		t.find("tls", Warning, Seen{"error": "it speaks TLS at this port"}, "client and server do not agree on TLS, so it has no vote",
			"# give all clients the URL rediss://"+t.endpoint.Addr+", with ?ca=FILE if an authority of your own has signed its certificate")
	case t.otherwise:
		t.find("tls", Warning, Seen{"error": "it speaks no TLS at this port"}, "client and server do not agree on TLS, so it has no vote",
			"# give the server's TLS port, or serve TLS there; redis:// is for connections without it")
	case errors.As(t.err, &handshake), alert.Of(t.err) != "", errors.As(t.err, &untrusted), errors.As(t.err, &host), errors.Is(t.err, driver.ErrTLS):
		t.find("tls", Warning, seen, "client and server do not agree on TLS, so it has no vote",
			"# correct the URL of "+t.Name+", or the server's certificate")
	case errors.Is(t.err, context.DeadlineExceeded):
		t.find("reach", Warning, Seen{"error": t.err.Error()}, "it does not answer in time, so it has no vote",
			"# see that nothing stops or cuts off "+t.Name+":", t.redis("ping"))
	default:
		t.find("reach", Warning, seen, "it does not answer, so it has no vote",
			"# start the server at "+t.Name+", and see that it answers:", t.redis("ping"))
	}
}

// checkCount says how many nodes there are, and how many answer.
func (e *exam) checkCount() {
	size, up := len(e.targets), 0
	for _, t := range e.targets {
		if t.err == nil {
			up++
		}
	}
	seen := Seen{"nodes": size, "answer": up}
	const more = "# give all clients one more independent master, or one less: one change at a time"
	switch {
	case up == 0:
		e.find("count", Unfit, seen, "no node answers: no lock can be taken", "# start the nodes, or correct their addresses")
	case up < e.report.Quorum:
		e.find("reach", Unfit, seen, fmt.Sprintf("%d must answer: no lock can be taken", e.report.Quorum), "# start the nodes that are down")
	}
	switch {
	case size < 3:
		e.find("count", Warning, seen, "the loss of one node ends all locks", "# give all clients three or five independent masters")
	case size%2 == 0:
		e.find("count", Warning, seen, fmt.Sprintf("an even number tolerates the loss of no more nodes than %d would", size-1), more)
	}
}

// checkServers says which nodes are one server, or on one machine. Of each node it says the worst.
func (e *exam) checkServers() {
	for i, t := range e.targets {
		if t.err == nil {
			t.infoMissing("same-server", "whether it is a server of its own")
		}
		before := e.targets[:i]
		if at := slices.IndexFunc(before, t.same); at >= 0 {
			t.find("same-server", Unfit, Seen{"node": before[at].Name, "run_id": t.info["run_id"]},
				"one server has two votes, so its loss takes both, and a quorum may be none",
				fmt.Sprintf("# give node %d (%s) a server of its own, or take it out of the list", t.number, t.Name))
		} else if at := slices.IndexFunc(before, t.near); at >= 0 {
			t.find("same-host", Warning, Seen{"node": before[at].Name, "address": strings.Join(t.addresses, " ")},
				"two nodes on one machine fail together", fmt.Sprintf("# move node %d (%s) to a machine of its own", t.number, t.Name))
		}
	}
}

// same reports whether two nodes are one server.
func (t *target) same(other *target) bool {
	id := t.info["run_id"]
	return id != "" && id == other.info["run_id"]
}

// near reports whether two nodes are on one machine.
func (t *target) near(other *target) bool {
	return slices.ContainsFunc(t.addresses, func(a string) bool { return slices.Contains(other.addresses, a) })
}
