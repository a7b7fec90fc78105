package redisserver

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
	"github.com/quorumlock/quorumlock/test/patient"
)

// Ask sends one command over a connection of its own, which has nothing to do with what is
// tested, and returns the reply.
func Ask(ctx context.Context, addr string, words ...string) (driver.Reply, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return driver.Reply{}, err
	}
	defer func() { _ = conn.Close() }()
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	replies, err := resp.NewConn(conn).Exchange(ctx, []driver.Command{{Args: args}})
	if err != nil {
		return driver.Reply{}, err
	}
	return replies[0], nil
}

// Ask is [Ask] of the server, which has to answer. An error reply is an answer.
func (s *Server) Ask(words ...string) driver.Reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply, err := Ask(ctx, s.Addr, words...)
	if err != nil {
		s.t.Fatalf("%q to redis-server: %v", words, err)
	}
	return reply
}

// Calls returns how often the server was sent a command, refused or not.
func (s *Server) Calls(command string) (total int) {
	s.t.Helper()
	for line := range strings.Lines(s.Ask("INFO", "commandstats").Str) {
		fields, found := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_"+command+":")
		for field := range strings.SplitSeq(fields, ",") {
			var n int
			if name, value, _ := strings.Cut(field, "="); found && (name == "calls" || name == "rejected_calls") {
				n, _ = strconv.Atoi(value)
			}
			total += n
		}
	}
	return total
}

// StartCluster starts a Cluster of so many masters, which have the same share of the slots each, in
// their order.
func StartCluster(t testing.TB, masters int) []*Server {
	t.Helper()
	const slots = 16384
	all := make([]*Server, masters)
	for i := range all {
		_, bus, _ := net.SplitHostPort(FreeAddr(t))
		all[i] = Start(t, "cluster-enabled yes", "cluster-port "+bus)
		all[i].Ask("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		all[0].Ask("CLUSTER", "MEET", "127.0.0.1", all[i].Port, bus)
	}
	for _, s := range all {
		patient.Until(t, "the cluster is up", func() bool {
			return strings.Contains(s.Ask("CLUSTER", "INFO").Str, "cluster_state:ok")
		})
	}
	return all
}
