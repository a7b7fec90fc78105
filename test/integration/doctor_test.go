package integration

import (
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/inspect"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// A doctor asks by any client, so one that is not the command's finds the same.
func TestADoctorSeesAClockThatIsSetOverAnyClient(t *testing.T) {
	processes := kinds[1]
	if processes.missing != nil {
		t.Skip(processes.missing)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(server.ErrNoCompiler)
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var servers []*server.Process
			var urls []string
			for range 3 {
				s := launch(t, server.Setup{Clock: true})
				servers, urls = append(servers, s), append(urls, "redis://"+s.Addr())
			}
			nodes, err := c.open(urls...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, n := range nodes {
					_ = n.Driver.(io.Closer).Close()
				}
			})
			seen := func(what string, during time.Duration) (inspect.Finding, bool) {
				findings := inspect.Doctor(t.Context(), nodes, inspect.Options{For: during, Settings: inspect.Settings{NodeTimeout: 2 * time.Second}}).Nodes[2].Findings
				i := slices.IndexFunc(findings, func(f inspect.Finding) bool { return f.ID == "clock" && strings.Contains(f.Seen.String(), what) })
				if i < 0 {
					return inspect.Finding{}, false
				}
				return findings[i], true
			}

			if f, ok := seen("", 100*time.Millisecond); ok {
				t.Fatalf("a clock that is right is found to be wrong: %v", f.Seen)
			}
			if err := servers[2].StepClock(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			if f, ok := seen("offset ", 100*time.Millisecond); !ok || f.Severity != inspect.Warning {
				t.Error("a clock that is 5s ahead of the others is not found")
			}
			set := time.AfterFunc(500*time.Millisecond, func() {
				if err := servers[2].StepClock(-5 * time.Second); err != nil {
					t.Error(err)
				}
			})
			defer set.Stop()
			if _, ok := seen("step -", 2*time.Second); !ok {
				t.Error("a clock that is set back while it is watched is not found")
			}
			if f, ok := seen("", 100*time.Millisecond); ok {
				t.Errorf("a clock that is right again is found to be wrong: %v", f.Seen)
			}
		})
	}
}
