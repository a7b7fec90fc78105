package deploy

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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

// Systemd's figure is from 0 to 10, and below 4 it takes no offence.
func TestUnitsMayDoLittle(t *testing.T) {
	figure := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`)
	exposed := func(name, text string) float64 {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", write(t, name, text)).CombinedOutput() //nolint:gosec // the test's own file
		found := figure.FindSubmatch(out)
		if found == nil {
			t.Fatalf("systemd-analyze security %s: %v\n%s", name, err, out)
		}
		level, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return level
	}
	for name, text := range units(t) {
		if filepath.Ext(name) != ".service" {
			continue
		}
		if level := exposed(name, text); level > 3 || !strings.Contains(text, fmt.Sprintf("says %.1f.", level)) {
			t.Errorf("systemd-analyze security says %.1f of %s: want at most 3, and what the unit says itself", level, name)
		}
		if level := exposed(name, strings.ReplaceAll(text, "SystemCallFilter=@system-service\n", "")); level <= 3 {
			t.Errorf("without a filter of system calls %s has a level of %.1f, so this test shows little", name, level)
		}
	}
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
