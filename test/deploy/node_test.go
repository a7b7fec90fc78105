package deploy

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// A recipe is how some file starts a node, and with what.
type recipe struct {
	image   string
	command []string
	files   map[string]string // what the node finds where
}

// A running is a node that was started here: on the loopback, and with files elsewhere.
type running struct{ host, port, cli string }

// start starts a node by its recipe. What differs is where its files are, and its address.
func (r recipe) start(t *testing.T) running {
	t.Helper()
	tag := r.image[strings.LastIndex(r.image, ":")+1:]
	// The version that the image has.
	fetch := exec.CommandContext(t.Context(), "../tools/servers", "redis-"+tag) //nolint:gosec // as the file says
	told, err := fetch.Output()
	words := strings.Fields(string(told))
	if err != nil || len(words) != 3 || !strings.HasPrefix(words[1], tag+".") {
		t.Fatalf("test/tools/servers redis-%s says %q: %v; the file's image %s wants such a server", tag, told, err, r.image)
	}
	host, port, _ := net.SplitHostPort(redisserver.FreeAddr(t))
	args := slices.Clone(r.command)
	if args[0] != "redis-server" {
		t.Fatalf("a node runs %q, want redis-server", args)
	}
	elsewhere := []string{"--bind", host, "--port", port}
	for name, text := range r.files {
		local := write(t, filepath.Base(name), text)
		if i := slices.Index(args, name); i >= 0 {
			args[i] = local
		}
		if strings.Contains(r.files[args0(r.command)], "aclfile "+name+"\n") {
			elsewhere = append(elsewhere, "--aclfile", local)
		}
	}
	node := exec.CommandContext(t.Context(), words[2], append(args[1:], elsewhere...)...) //nolint:gosec // as above
	node.Dir, node.Stderr = t.TempDir(), os.Stderr                                        // data is in the working directory
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	})
	var log strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, out) }() // or the server would wait for its log to be read
			return running{host, port, filepath.Join(filepath.Dir(words[2]), "redis-cli")}
		}
	}
	t.Fatalf("%q ended before it was ready:\n%s", args, &log)
	return running{}
}

// args0 is the configuration that a command line of a node names.
func args0(command []string) string {
	if len(command) != 2 {
		return ""
	}
	return command[1]
}

// probe runs the command by which a container is probed: with the right password it finds the node
// well, and with another one it does not.
func (r running) probe(t *testing.T, argv []string, password string) {
	t.Helper()
	folder := t.TempDir()
	script := "#!/bin/sh\nexec " + r.cli + " -h " + r.host + " -p " + r.port + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(folder, "redis-cli"), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	for _, auth := range []string{password, "wrong"} {
		check := exec.CommandContext(t.Context(), argv[0], argv[1:]...) //nolint:gosec // as the file says
		check.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "REDISCLI_AUTH=" + auth}
		if out, err := check.CombinedOutput(); (err == nil) != (auth == password) {
			t.Errorf("%q with the right password (%t): %v: %s", argv, auth == password, err, out)
		}
	}
}

// inherent are the findings that a single machine has whatever the nodes are like, and a busy one.
var inherent = []string{"same-host", "here", "latency", "clock"}

// examine runs doctor with a client's environment, and fails for each finding that is not inherent
// to one machine.
func examine(t *testing.T, env []string) {
	t.Helper()
	doctor := exec.CommandContext(t.Context(), command, "doctor", "-o", "json", "--for", "100ms", "--node-timeout", "2s", "--accept", strings.Join(inherent, ",")) //nolint:gosec // built here
	doctor.Env = env
	var talk strings.Builder
	doctor.Stderr = &talk
	out, err := doctor.Output()
	var r inspect.Report
	if json.Unmarshal(out, &r) != nil || len(r.Nodes) != 5 {
		t.Fatalf("doctor: %v: %s%s", err, out, &talk)
	}
	for _, f := range r.All() {
		if f.Severity != inspect.Info && !slices.Contains(inherent, f.ID) {
			t.Errorf("%s: %s %s: %v: %s %q", f.Node, f.Severity, f.ID, f.Seen, f.Why, f.Mend)
		}
	}
}

// ripen lets the nodes of a client's environment vote at once.
func ripen(t *testing.T, env []string) {
	t.Helper()
	of := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		of[name] = value
	}
	longest, err := time.ParseDuration(of["QUORUMLOCK_LONGEST_TTL"])
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, node := range strings.Fields(of["QUORUMLOCK_NODES"]) {
		_, addr, _ := strings.Cut(strings.TrimSuffix(node, ","), "@")
		addrs = append(addrs, addr)
	}
	if err := ripe.Servers(t.Context(), addrs, memory.Settings{Longest: longest}, of["QUORUMLOCK_PREFIX"], "locks", password); err != nil {
		t.Fatal(err)
	}
}
