package inspect

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestEachFindingHasItsSection(t *testing.T) {
	names := func(pattern string, files ...string) (all []string) {
		for _, file := range files {
			text, err := os.ReadFile(file) //nolint:gosec // of the repository
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
				all = append(all, string(found[1]))
			}
		}
		return distinct(all)
	}
	source, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	ids := distinct(IDs)
	if sections := names(`(?m)^### ([a-z-]+)$`, "../../docs/operations.md"); !slices.Equal(sections, ids) {
		t.Errorf("docs/operations.md has the sections %q, and there are the findings %q", sections, ids)
	}
	if found := names(`(?:\.find|cannotTell|infoMissing|newFinding)\("([a-z-]+)"`, source...); !slices.Equal(found, ids) {
		t.Errorf("this package finds %q, and IDs are %q", found, ids)
	}
}

func TestEachStateOfAKeyIsExplained(t *testing.T) {
	for _, file := range []string{"../../docs/operations.md", "../../docs/schema/status.v1.json"} {
		text, err := os.ReadFile(file) //nolint:gosec // of the repository
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []KeyState{
			KeyFree, KeyHeld, KeyAtQuorum, KeyShared, KeyPermits, KeySplit, KeyLeftOver, KeyForeign, KeyRevoked, KeyUnclear,
		} {
			if !regexp.MustCompile("(?m)^\\| .* \\(`" + string(state) + "`\\) \\||^ +\"" + string(state) + "\",?$").Match(text) {
				t.Errorf("%s does not name the state %s", file, state)
			}
		}
	}
}
