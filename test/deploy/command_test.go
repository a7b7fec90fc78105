package deploy

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/redisserver"
)

// nodes starts five nodes as compose.yaml has them, which vote, and returns a client's
// environment, of which the units and Kubernetes have the same.
func nodes(t *testing.T) (env []string) {
	t.Helper()
	p, services, doctor := composed(t)
	for name, value := range doctor.Environment {
		env = append(env, name+"="+*value)
	}
	for _, n := range services {
		server := nodeRecipe(p, n).start(t)
		for i := range env {
			env[i] = strings.ReplaceAll(env[i], "@"+n.Name+":6379", "@"+server.host+":"+server.port)
		}
	}
	ripen(t, env)
	return append(env, "QUORUMLOCK_NODE_TIMEOUT=5s", "PATH="+filepath.Dir(command)+":"+os.Getenv("PATH"))
}

var setting = regexp.MustCompile(`(?m)^(ExecStart|Environment)=(.+)$`)

// Each unit's command runs its program under the lock, over nodes of compose.yaml, with the
// settings that the unit has; and a unit of Type=notify is told that it is ready.
func TestUnitsRunTheirProgramsUnderTheLock(t *testing.T) {
	env := nodes(t)
	for name, text := range units(t) {
		if filepath.Ext(name) != ".service" {
			continue
		}
		state := t.TempDir()
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(state, "notify"), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
		program := filepath.Join(state, "program")
		if err := os.WriteFile(program, []byte("#!/bin/sh\nquorumlock left && echo under the lock $QUORUMLOCK_KEY\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
		var argv []string
		own := append(slices.Clone(env), "NOTIFY_SOCKET="+filepath.Join(state, "notify"))
		for _, line := range setting.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(line[2])
			if line[1] == "ExecStart" {
				argv = words
				continue
			}
			for _, w := range words {
				if key, _, _ := strings.Cut(w, "="); key == "QUORUMLOCK_PREFIX" || key == "QUORUMLOCK_GUARD" || key == "QUORUMLOCK_LONGEST_TTL" {
					if !slices.Contains(env, w) {
						t.Errorf("%s has %s, and compose.yaml another one", name, w)
					}
				} else if key == "XDG_RUNTIME_DIR" {
					own = append(own, key+"="+state)
				}
			}
		}
		dash := slices.Index(argv, "--")
		if argv[0] != "/usr/bin/quorumlock" || dash < 0 || dash+2 != len(argv) {
			t.Fatalf("%s runs %q, want quorumlock … -- PROGRAM", name, argv)
		}
		// What follows the program keeps a test for 40s and more.
		if i := slices.Index(argv, "--at-least"); i >= 0 {
			argv[i+1] = "1ms"
		}
		argv[dash+1] = program
		run := exec.CommandContext(t.Context(), command, argv[1:]...) //nolint:gosec // built here
		run.Env = own
		out, err := run.CombinedOutput()
		if key := argv[dash-1]; err != nil || !strings.Contains(string(out), "under the lock "+key+"\n") {
			t.Errorf("%s: %q: %v: %s", name, argv, err, out)
		}
		if !strings.Contains(text, "\nType=notify\n") {
			continue
		}
		var told string
		for message := make([]byte, 4096); !strings.Contains(told, "READY=1"); {
			_ = socket.SetReadDeadline(time.Now().Add(time.Second)) // all was sent before the command ended
			n, err := socket.Read(message)
			if err != nil {
				t.Errorf("%s was told %q, and not that it is ready: %v", name, told, err)
				break
			}
			told += string(message[:n]) + "\n"
		}
	}
}

// Kubernetes runs the commands of its clients, with their arguments and settings.
func TestKubernetesRunsWhatQuorumlockTakes(t *testing.T) {
	env := nodes(t)
	m := readManifest(t)
	clients := m.clients(t)
	argv := clients["nightly"].Command
	argv[slices.Index(argv, "--at-least")+1] = "1ms"
	program := argv[len(argv)-1]
	argv[len(argv)-1] = "true"
	run := exec.CommandContext(t.Context(), command, argv[1:]...) //nolint:gosec // built here
	run.Env = env
	if out, err := run.CombinedOutput(); err != nil || argv[0] != "/usr/bin/quorumlock" || program != "/usr/bin/nightly" {
		t.Errorf("nightly: %q: %v: %s", argv, err, out)
	}

	listen := redisserver.FreeAddr(t)
	words := slices.Clone(clients["elect"].Args)
	for i, w := range words {
		if w == ":4040" {
			words[i] = listen
		}
	}
	elects := exec.CommandContext(t.Context(), command, slices.Insert(words, 1, "--status-fd", "3")...) //nolint:gosec // built here
	events, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	elects.Env, elects.ExtraFiles, elects.Stderr = env, []*os.File{to}, os.Stderr
	if err := elects.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = elects.Process.Signal(syscall.SIGTERM)
		_ = elects.Wait()
	})
	_ = to.Close()
	lines := bufio.NewScanner(events)
	for acquired := false; !acquired && lines.Scan(); {
		acquired = strings.Contains(lines.Text(), `"acquired"`)
	}
	for _, path := range []string{clients["elect"].ReadinessProbe.HTTPGet.Path, clients["elect"].LivenessProbe.HTTPGet.Path} {
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listen+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Fatalf("elect %q: %v (its last event: %s)", words, err, lines.Text())
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("elect %q answers %s at %s, want 200: it leads", words, answer.Status, path)
		}
	}
}
