package inspect

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestEachFindingHasItsSection(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, heading := range regexp.MustCompile(`(?m)^### ([a-z-]+)$`).FindAllSubmatch(text, -1) {
		sections = append(sections, string(heading[1]))
	}
	for _, id := range IDs {
		if !slices.Contains(sections, id) {
			t.Errorf("docs/operations.md has no section %q", id)
		}
	}
	for _, section := range sections {
		if !slices.Contains(IDs, section) {
			t.Errorf("docs/operations.md has a section %q, and there is no such finding", section)
		}
	}
	// What the code says is found must be a known id.
	source := regexp.MustCompile(`(?:\.find|cannotTell|infoMissing|newFinding)\("([a-z-]+)"`)
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range source.FindAllSubmatch(text, -1) {
			found[string(id[1])] = true
		}
	}
	for _, id := range IDs {
		if !found[id] {
			t.Errorf("nothing in this package finds %q", id)
		}
		delete(found, id)
	}
	for id := range found {
		t.Errorf("%q is found and not among IDs", id)
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
