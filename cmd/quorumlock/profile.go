package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A profile is a file of settings, with one "key = value" a line: here by the keys.
type profile map[string]profileEntry

type profileEntry struct{ value, origin string }

// systemProfiles is the folder of the machine's profiles.
const systemProfiles = "/etc/quorumlock"

// usualProfile is the profile that is read, if there is one, where none was asked for.
const usualProfile = "default"

// openProfile reads the profile of a name: the user's own, or else the machine's.
func openProfile(name string, getenv func(string) string) (profile, error) {
	asked := name != ""
	if !asked {
		name = usualProfile
	}
	files := []string{name}
	if !strings.ContainsRune(name, filepath.Separator) {
		own := getenv("XDG_CONFIG_HOME")
		if own == "" {
			own = filepath.Join(getenv("HOME"), ".config")
		}
		files = []string{filepath.Join(own, "quorumlock", name+".conf"), filepath.Join(systemProfiles, name+".conf")}
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // who runs the command says which
		switch {
		case err == nil:
			return parseProfile(file, string(text))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if asked {
		return nil, fmt.Errorf("no profile %q: there is no file %s", name, strings.Join(files, ", nor "))
	}
	return nil, nil
}

// parseProfile reads the lines of a profile. No error shows a value: it may be a password.
func parseProfile(file, text string) (profile, error) {
	p := make(profile)
	names := new(settings).names()
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		origin := fmt.Sprintf("%s:%d", file, number)
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		before, twice := p[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: want \"key = value\"", origin)
		case !slices.Contains(names, name):
			return nil, fmt.Errorf("%s: no setting %q: want one of %s", origin, name, strings.Join(names, ", "))
		case twice && name != "nodes":
			return nil, fmt.Errorf("%s: %s was set before, in %s: take one of them out", origin, name, before.origin)
		case twice:
			value, origin = before.value+","+value, before.origin
		}
		p[name] = profileEntry{value, origin}
	}
	return p, nil
}

func profileVerb(t *tool) *cobra.Command {
	verb := &cobra.Command{
		Use:   "profile",
		Short: "Look at the settings that all clients of a key must agree on",
		Long: fmt.Sprintf(`A profile holds the settings that all clients of a key must agree on, and the nodes. It is a file with one
"key = value" a line, by the names of the flags, and comments behind #:

    # %[1]s/prod.conf
    nodes  = rediss://locks:secret@10.0.0.1, rediss://locks:secret@10.0.0.2
    nodes  = rediss://locks:secret@10.0.0.3
    prefix = orders:
    fences = true

--profile NAME (or QUORUMLOCK_PROFILE) reads $XDG_CONFIG_HOME/quorumlock/NAME.conf, or else %[1]s/NAME.conf. Without it
"%[2]s" is read, if there is one. Flags come before the environment, and the environment before the profile.`, systemProfiles, usualProfile),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	check := t.overNodes(&cobra.Command{
		Use:   "check",
		Short: "Show which settings are in force, and where each comes from",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := t.settings.nodes(); err != nil {
				return err
			}
			return t.printSettings(cmd.Flags())
		},
	})
	t.formats(check)
	verb.AddCommand(check)
	return verb
}

// A settingsReport is what `profile check -o json` prints.
type settingsReport struct {
	Schema   string          `json:"schema"`
	Settings []settingReport `json:"settings"`
}

type settingReport struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func (t *tool) printSettings(flags *pflag.FlagSet) error {
	report := settingsReport{Schema: "quorumlock.profile/v1"}
	for _, name := range t.settings.names() {
		report.Settings = append(report.Settings, settingReport{name, t.settings.show(flags.Lookup(name)), t.settings.origins[name]})
	}
	switch t.format {
	case formatJSON:
		return t.writeJSON(report)
	case formatJSONL:
		return writeLines(t, report.Settings)
	}
	rows := table{{"SETTING", "VALUE", "FROM"}}
	for _, s := range report.Settings {
		rows = append(rows, []string{s.Name, s.Value, s.From})
	}
	return t.print(rows.String())
}
