package rueidis_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestTLSWithUserAndDatabase(t *testing.T) {
	files := redisserver.NewCertificates(t)
	addr := redisserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redisserver.StartAt(t, addr,
		append(files.Config(port), "port 0", "user default off", "user locks on >p@ss/word ~orders:* +@all")...)
	open := func(database string) driver.Driver {
		nodes, err := rueidis.Open("rediss://locks:p%40ss%2Fword@" + addr + "/" + database + "?ca=" + files.CA)
		if err != nil {
			t.Fatal(err)
		}
		return driverOf(t, nodes[0])
	}
	third := open("3")
	do(t, third, command("SET", "orders:42", "token"))
	if got := do(t, third, command("GET", "orders:42"))[0]; got.Str != "token" {
		t.Errorf("GET in database 3, where it was set, = %+v, want token", got)
	}
	if got := do(t, open("2"), command("GET", "orders:42"))[0]; got.Kind != driver.Nil {
		t.Errorf("GET in database 2 of what was set in 3 = %+v, want nil", got)
	}

	nodes, err := rueidis.Open("rediss://locks:p%40ss%2Fword@" + addr) // without the authority
	if err != nil {
		t.Fatal(err)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := try(driverOf(t, nodes[0]), command("GET", "orders:42")); !errors.As(err, &unknown) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Do with an authority that the system does not know = %v, want that error, and that nothing was sent", err)
	}
}

// The reason of a server that refuses the connection is in the error.
func TestHandshakeRefusals(t *testing.T) {
	guarded := []string{redisserver.Start(t, "requirepass secret", "user narrow on >secret ~* +@all -select").Addr}
	free := []string{redisserver.Start(t).Addr}
	for name, tt := range map[string]struct {
		option client.ClientOption
		code   string
		text   string
	}{
		"wrong password":    {client.ClientOption{InitAddress: guarded, Password: "wrong"}, "WRONGPASS", "invalid username-password pair"},
		"unknown user":      {client.ClientOption{InitAddress: guarded, Username: "nobody", Password: "secret"}, "WRONGPASS", "invalid username-password pair"},
		"no password":       {client.ClientOption{InitAddress: guarded}, "NOAUTH", "must be called with the client already authenticated"},
		"may not SELECT":    {client.ClientOption{InitAddress: guarded, Username: "narrow", Password: "secret", SelectDB: 3}, "NOPERM", "no permissions to run the 'select' command"},
		"no such database":  {client.ClientOption{InitAddress: guarded, Password: "secret", SelectDB: 99}, "ERR", "DB index is out of range"},
		"needless password": {client.ClientOption{InitAddress: free, Password: "secret", AlwaysRESP2: true}, "ERR", "AUTH <password> called without any password configured"},
	} {
		nodes, err := rueidis.FromOptions(tt.option)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"its first", "its second"} { // the client is not kept
			_, err := try(driverOf(t, nodes[0]), command("SET", "key", "token"))
			var refused *driver.ServerError
			if !errors.As(err, &refused) {
				t.Errorf("%s: %s Do = %v, want a ServerError with code %s", name, way, err, tt.code)
				continue
			}
			if refused.Code != tt.code || !strings.Contains(refused.Message, tt.text) {
				t.Errorf("%s: %s Do = code %q, message %q; want %s … %s …", name, way, refused.Code, refused.Message, tt.code, tt.text)
			}
			if !errors.Is(err, driver.ErrNotSent) {
				t.Errorf("%s: %s Do = %v, which does not say that nothing was sent", name, way, err)
			}
			if want := "rueidis: the handshake was refused: " + tt.code + " "; !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: the error is %q, want %s… on one line", name, err, want)
			}
		}
	}
}

// A user that may not run a command is refused by a reply, with any client.
func TestUserWithoutPermission(t *testing.T) {
	addr := redisserver.Start(t, "user reader on >secret ~* +@all -@write").Addr
	own, err := rueidis.Open("redis://reader:secret@" + addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewClient(client.ClientOption{InitAddress: []string{addr}, Username: "reader", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	users, err := rueidis.Nodes(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range append(own, users...) {
		replies := do(t, driverOf(t, node), command("SET", "key", "token"), command("GET", "key"))
		var refused *driver.ServerError
		if !errors.As(replies[0].Err(), &refused) || refused.Code != "NOPERM" {
			t.Errorf("SET by a user that may not write = %+v, want a failure with NOPERM", replies[0])
		}
		if replies[1].Kind != driver.Nil {
			t.Errorf("GET behind it = %+v, want nil", replies[1])
		}
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

// try is a call that may fail, within ten seconds.
func try(d driver.Driver, cmds ...driver.Command) ([]driver.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return d.Do(ctx, cmds)
}
