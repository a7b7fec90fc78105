package rueidis_test

import (
	"strings"
	"testing"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// rueidis cuts off a leading ERR.
func TestNeedlessPassword(t *testing.T) {
	d := open(t, client.ClientOption{InitAddress: []string{redisserver.Start(t).Addr}, Password: "secret", AlwaysRESP2: true})
	_, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("SET", "key", "token")})
	if servertest.Code(err) != "ERR" || !strings.Contains(err.Error(), "AUTH <password> called without any password configured") {
		t.Errorf("Do = %v, want a ServerError with code ERR", err)
	}
}

func TestRefusedOptions(t *testing.T) {
	someone := []string{"10.0.0.1:6379"}
	for want, option := range map[string]client.ClientOption{
		"rueidis: node 2 (): InitAddress is empty":                       {},
		"rueidis: node 2 (10.0.0.1:6379): ReplicaOnly is set":            {InitAddress: someone, ReplicaOnly: true},
		"rueidis: node 2 (10.0.0.1:6379): SendToReplicas is set":         {InitAddress: someone, SendToReplicas: func(client.Completed) bool { return true }},
		"rueidis: node 2 (main): ConnWriteTimeout is negative; want 0 (": {InitAddress: someone, ConnWriteTimeout: -1, Sentinel: client.SentinelOption{MasterSet: "main"}},
	} {
		_, err := rueidis.FromOptions(client.ClientOption{InitAddress: someone}, option)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("FromOptions = %v, want %s…", err, want)
		}
	}
	if _, err := rueidis.Nodes(nil); err == nil || err.Error() != "rueidis: node 1: the client is nil" {
		t.Errorf("Nodes with a nil client = %v, want that it says so", err)
	}
	if _, err := rueidis.Node(nil); err == nil {
		t.Error("Node with a nil client returned no error")
	}
}
