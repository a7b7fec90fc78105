package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// verify asks systemd what it thinks of units, whose command is the one that was built here.
func verify(t *testing.T, units map[string]string) string {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is not here: install systemd (Debian: apt-get install systemd)")
	}
	folder, args := t.TempDir(), []string{"verify", "--man=no", "--recursive-errors=yes"}
	for name, text := range units {
		local := write(t, name, strings.ReplaceAll(text, "/usr/bin/quorumlock", command))
		args = append(args, local)
	}
	cmd := exec.CommandContext(t.Context(), tool, args...) //nolint:gosec // the installed one
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		return err.Error()
	}
	return string(out)
}

// units are those of folder systemd.
func units(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(place + "systemd/*")
	if err != nil || len(files) != 3 {
		t.Fatalf("folder systemd has %q: %v, want two services and a timer", files, err)
	}
	all := map[string]string{}
	for _, file := range files {
		all[filepath.Base(file)] = read(t, "systemd/"+filepath.Base(file))
	}
	return all
}

func TestSystemdTakesTheUnits(t *testing.T) {
	if said := verify(t, units(t)); said != "" {
		t.Errorf("systemd-analyze verify says:\n%s", said)
	}
	broken := units(t)
	for name, text := range broken {
		if name == "quorumlock-worker.service" {
			text = strings.Replace(text, "KillMode=mixed", "KillMode=mixture", 1)
		}
		broken[name] = text
	}
	if said := verify(t, broken); !strings.Contains(said, "mixture") {
		t.Errorf("systemd-analyze verify says %q of a unit that is wrong, want it to name what is", said)
	}
}
