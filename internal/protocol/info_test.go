package protocol

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

func FuzzReadInfo(f *testing.F) {
	f.Add("# Server\r\nrun_id:abc\r\nrole:master\r\n")
	f.Add(":\n::\n\r\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		facts := ReadFacts([]driver.Reply{{Kind: driver.Integer}, {Kind: driver.String, Str: text}})
		for name, value := range map[string]string{"run_id": facts.RunID, "role": facts.Role, "maxmemory": facts.Memory, "maxmemory_policy": facts.Policy} {
			if value != "" && !strings.Contains(text, name+":"+value) {
				t.Errorf("ReadFacts(%q) made up %q = %q", text, name, value)
			}
		}
	})
}
