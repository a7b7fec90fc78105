package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// The file is decoded as `goreleaser check` does, by the types of a goreleaser that knows no field
// besides. What its hooks make, and what packages contain, is there.
func TestPackagesHaveWhatTheyName(t *testing.T) {
	p, err := config.Load("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Builds) != 1 || len(p.NFPMs) != 1 || len(p.DockersV2) != 1 {
		t.Fatalf("there are %d builds, %d packages and %d images, want one each", len(p.Builds), len(p.NFPMs), len(p.DockersV2))
	}
	if _, err := os.Stat(filepath.Join("../..", p.Builds[0].Dir, "main.go")); err != nil {
		t.Error(err)
	}
	for _, hook := range p.Before.Hooks {
		words := strings.Fields(hook)
		run := exec.CommandContext(t.Context(), words[0], words[1:]...) //nolint:gosec // as the file says
		run.Dir, run.Env = "../..", append(os.Environ(), "GOWORK=")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", hook, err, out)
		}
	}
	var named, placed []string
	for _, c := range p.NFPMs[0].Contents {
		named, placed = append(named, c.Source), append(placed, c.Destination)
	}
	for _, f := range p.Archives[0].Files {
		named = append(named, f.Source)
	}
	for _, name := range append(named, p.DockersV2[0].Dockerfile) {
		files, err := filepath.Glob(filepath.Join("../..", name))
		if name != "" && (err != nil || len(files) == 0) {
			t.Errorf("there is no %s: %v", name, err)
		}
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || !info.IsDir() && info.Size() == 0 {
				t.Errorf("%s is empty: %v", file, err)
			}
		}
	}
	for _, format := range []string{"deb", "rpm"} {
		if !slices.Contains(p.NFPMs[0].Formats, format) {
			t.Errorf("there is no package of format %s", format)
		}
	}
	for _, place := range []string{"/usr/share/man/man1/", "/usr/share/bash-completion/completions/quorumlock", "/usr/share/zsh/site-functions/_quorumlock"} {
		if !slices.Contains(placed, place) {
			t.Errorf("packages have nothing at %s", place)
		}
	}
}

func TestAFieldThatGoreleaserDoesNotKnowIsRefused(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "mod_timestamp:", "mod_time:", 1)
	if _, err := config.LoadReader(strings.NewReader(broken)); err == nil || !strings.Contains(err.Error(), "mod_time") {
		t.Errorf("a field mod_time: %v, want an error that names it", err)
	}
}

// What Compose and Kubernetes run is the image, by its entry point.
func TestTheImageIsTheOneThatIsRun(t *testing.T) {
	p, err := config.Load("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^## v(\S+)`).FindSubmatch(changes)
	image := p.DockersV2[0].Images[0] + ":" + string(version[1])
	if !slices.Contains(p.DockersV2[0].Tags, "{{ .Version }}") {
		t.Errorf("the image has the tags %q, want its version", p.DockersV2[0].Tags)
	}
	_, _, doctor := composed(t)
	for name, got := range map[string]string{"doctor": doctor.Image, "elect": readManifest(t).clients(t)["elect"].Image} {
		if got != image {
			t.Errorf("%s runs %s, want %s", name, got, image)
		}
	}
	for _, line := range []string{"\nFROM scratch\n", "\nUSER 65532:65532\n", "/quorumlock /quorumlock\n", "\nENTRYPOINT [\"/quorumlock\"]\n"} {
		if !strings.Contains(read(t, "Dockerfile"), line) {
			t.Errorf("the Dockerfile has no line %q", line)
		}
	}
}
