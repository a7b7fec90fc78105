package redlocktest

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

func TestInfo(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Node)
		ask    []string
		want   string // a regular expression
	}{
		{"server", nil, []string{"server"}, `^# Server\r\n(?s:.*)run_id:[0-9a-f]{40}\r\n$`},
		{"replication", nil, []string{"REPLICATION"}, `^# Replication\r\nrole:master\r\n(?s:.*)master_replid:[0-9a-f]{40}\r\n$`},
		{"memory", nil, []string{"memory"}, `^# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n$`},
		{"all", nil, nil, `^# Server\r\n(?s:.*)\r\n\r\n# Replication\r\n(?s:.*)$`},
		{"two", nil, []string{"server", "memory"}, `^# Server\r\n(?s:.*)\r\n\r\n# Memory\r\n[^#]*$`},
		{"everything", nil, []string{"everything"}, `^# Server\r\n(?s:.*)# Memory`},
		{"unknown", nil, []string{"nothing"}, `^$`},
		{"replica", func(n *Node) { n.SetRole("slave") }, []string{"replication"}, `\r\nrole:slave\r\n`},
		{"evicting", func(n *Node) { n.SetEviction("allkeys-lru") }, []string{"memory"}, `\nmaxmemory:104857600\r\nmaxmemory_policy:allkeys-lru\r\n`},
		{"no field", func(n *Node) { n.SetInfo("master_replid", "") }, []string{"replication"}, `^# Replication\r\nrole:master\r\nconnected_slaves:0\r\n$`},
		{"new field", func(n *Node) { n.SetInfo("availability_zone", "a") }, []string{"server"}, `\navailability_zone:a\r\n$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := StartInBubble(t, 1)[0]
				if tt.change != nil {
					tt.change(node)
				}
				got := ask(t, node, append([]string{"INFO"}, tt.ask...)...).Str
				if !regexp.MustCompile(tt.want).MatchString(got) {
					t.Errorf("INFO %v = %q, want a match of %s", tt.ask, got, tt.want)
				}
			})
		})
	}
}

func TestRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		if got := show(ask(t, node, "ROLE")); got != `["master" 0 []]` {
			t.Errorf("ROLE = %s, want a master", got)
		}
		node.SetRole("slave")
		if got := show(ask(t, node, "ROLE")); !strings.HasPrefix(got, `["slave" "192.0.2.1" 6379`) {
			t.Errorf("ROLE after SetRole = %s, want a slave", got)
		}
	})
}

func TestSetInfoOutlivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := StartInBubble(t, 2)
		nodes[1].SetInfo("run_id", nodes[0].Info("run_id"))
		if err := nodes[1].RestartEmpty(); err != nil {
			t.Fatal(err)
		}
		if got, want := nodes[1].Info("run_id"), nodes[0].Info("run_id"); got != want {
			t.Errorf("run_id after RestartEmpty = %s, want %s, which was set", got, want)
		}
		if got := nodes[1].Info("nothing"); got != "" {
			t.Errorf("Info of an unknown field = %q, want nothing", got)
		}
	})
}
