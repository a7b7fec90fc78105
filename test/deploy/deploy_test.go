// Package deploy tests the files of folder deploy: each as its own tool or API reads it, and
// those of the nodes at real servers.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/acl"
)

// place is the folder of the files.
const place = "../../deploy/"

// read reads a file of the folder.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(place + name) //nolint:gosec // of the repository
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// users is the ACL file of the nodes, of the one table of rights: under the files' prefix, and
// without the commands that other servers have.
func users(password string) string {
	var features []*acl.Feature
	for _, f := range acl.Features {
		if f != acl.Native {
			features = append(features, f)
		}
	}
	return "user default off\nuser locks on >" + password + " " + strings.Join(acl.Rules("locks:", features...), " ") + "\n"
}

// command is the command quorumlock, built of what is here.
var command string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "quorumlock-deploy-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	command = filepath.Join(folder, "quorumlock")
	build := exec.Command("go", "build", "-o", command, "./cmd/quorumlock") //nolint:gosec,noctx // a folder of its own; as long as it takes
	build.Dir, build.Env = "../..", append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		_, _ = os.Stderr.Write(out)
		return 1
	}
	return m.Run()
}

// write writes a file of the test's own, and returns its name.
func write(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
