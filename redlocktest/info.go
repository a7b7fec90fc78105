package redlocktest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Info returns a field of the node's INFO, and "" where there is none: "run_id",
// "master_replid", "role", "maxmemory_policy".
func (n *Node) Info(field string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, section := range n.info() {
		for _, f := range section.fields {
			if f.name == field {
				return f.value
			}
		}
	}
	return ""
}

// SetInfo makes INFO answer the value for the field, over restarts too, until it is
// called again. An empty value takes the field away. A field that INFO does not have
// is put into the section server. Only the answer changes: a node told to be a
// replica still takes writes (see [Node.Fail]), and one told to evict does not.
func (n *Node) SetInfo(field, value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.infos == nil {
		n.infos = map[string]string{}
	}
	n.infos[field] = value
}

// SetRole makes the node say that it is a "master" or a "slave", in INFO and in ROLE.
func (n *Node) SetRole(role string) {
	n.SetInfo("role", role)
}

// SetEviction makes the node say that it has a memory limit, of 100 MB, and that
// policy for when it is reached: "noeviction", "allkeys-lru".
func (n *Node) SetEviction(policy string) {
	n.SetInfo("maxmemory", "104857600")
	n.SetInfo("maxmemory_policy", policy)
}

type section struct {
	name   string
	fields []field
}

type field struct{ name, value string }

// info is called with mu held.
func (n *Node) info() []section {
	sections := []section{
		{"Server", []field{{"redis_version", "8.4.0"}, {"redis_mode", "standalone"}, {"run_id", n.runID}}},
		{"Clients", []field{{"connected_clients", strconv.Itoa(n.engine.Server().ClientsLen())}}},
		{"Memory", []field{{"maxmemory", "0"}, {"maxmemory_policy", "noeviction"}}},
		{"Persistence", []field{{"loading", "0"}}},
		{"Replication", []field{{"role", "master"}, {"connected_slaves", "0"}, {"master_replid", n.replID}}},
		{"Cluster", []field{{"cluster_enabled", "0"}}},
	}
	extra := maps.Clone(n.infos)
	for i := range sections {
		for j, f := range sections[i].fields {
			if value, set := extra[f.name]; set {
				sections[i].fields[j].value = value
				delete(extra, f.name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		sections[0].fields = append(sections[0].fields, field{name, extra[name]})
	}
	return sections
}

// infoText is the answer to INFO with these arguments.
func (n *Node) infoText(names []string) string {
	asked := func(section string) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
			return strings.EqualFold(name, section) || slices.Contains([]string{"all", "default", "everything"}, strings.ToLower(name))
		})
	}
	var text strings.Builder
	for _, section := range n.info() {
		if !asked(section.name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", section.name)
		for _, f := range section.fields {
			if f.value != "" {
				fmt.Fprintf(&text, "%s:%s\r\n", f.name, f.value)
			}
		}
	}
	return text.String()
}

// writeRole answers ROLE. A replica's master is unreachable.
func (n *Node) writeRole(c *server.Peer) {
	role := "master"
	if set := n.infos["role"]; set != "" {
		role = set
	}
	if role == "master" {
		c.WriteLen(3)
		c.WriteBulk(role)
		c.WriteInt(0)
		c.WriteLen(0)
		return
	}
	c.WriteLen(5)
	c.WriteBulk(role)
	c.WriteBulk("192.0.2.1")
	c.WriteInt(6379)
	c.WriteBulk("connect")
	c.WriteInt(-1)
}

func newID() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}
