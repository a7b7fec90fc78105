package rueidis_test

import (
	"testing"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
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

func TestSentinel(t *testing.T) {
	servertest.Failover(t, func(sentinel string) driver.Driver {
		nodes, err := rueidis.FromOptions(client.ClientOption{
			InitAddress: []string{sentinel}, Sentinel: client.SentinelOption{MasterSet: "main"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if nodes[0].Name != "main" {
			t.Errorf("the node is named %q, want main, after the master set", nodes[0].Name)
		}
		return servertest.Closing(t, nodes[0].Driver)
	})
}
