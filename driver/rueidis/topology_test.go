package rueidis_test

import (
	"strconv"
	"testing"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/scripted"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestCluster(t *testing.T) {
	servertest.Cluster(t, func(addr string) driver.Driver {
		nodes, err := rueidis.Nodes(newClient(t, client.ClientOption{InitAddress: []string{addr}}))
		if err != nil {
			t.Fatal(err)
		}
		if nodes[0].Name != "node 1" {
			t.Errorf("a Cluster, which has many addresses, is named %q, want node 1", nodes[0].Name)
		}
		return servertest.Closing(t, nodes[0].Driver)
	})
}

func TestClusterByURL(t *testing.T) {
	servertest.ClusterByURL(t, rueidis.Open)
}

// A user may not be allowed to ask for the map. Then no connection is kept, as each would serve one slot.
func TestAClusterWhoseMapIsUnknownTakesNoMoreConnections(t *testing.T) {
	server := scripted.Start(t)
	d := open(t, client.ClientOption{InitAddress: []string{server.Addr()}, ClientName: scripted.Cluster})
	servertest.Ask(t, d, "SET", "first", "token")
	atFirst := server.Conns()
	server.Cut()
	server.Locked(func() {
		server.Instead = func(_ int, args []string) (string, bool) {
			return scripted.Failure("NOPERM this user may not"), args[0] == "CLUSTER"
		}
	})
	for i := range 16 {
		key := strconv.Itoa(i)
		patient.Until(t, "the server takes a key", func() bool {
			_, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("SET", key, "token")})
			return err == nil
		})
	}
	if !server.AwaitConns(atFirst) {
		t.Errorf("with 16 keys in slots of masters that are not known, %d connections are open, want %d", server.Conns(), atFirst)
	}
}

func TestSentinel(t *testing.T) {
	servertest.Failover(t, func(sentinel string) driver.Driver {
		nodes, err := rueidis.Open("redis-sentinel://" + sentinel + "?master=main")
		if err != nil {
			t.Fatal(err)
		}
		if nodes[0].Name != "main" {
			t.Errorf("the node is named %q, want main, after the master set", nodes[0].Name)
		}
		return servertest.Closing(t, nodes[0].Driver)
	})
}
