package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// settings are the nodes, and what all clients of a key must agree on. Each comes from a flag,
// the environment, or the profile, in this order.
type settings struct {
	inspect.Settings
	urls         []string // as they were given: @FILE is not read yet
	profile      string
	insecureArgv bool

	origins map[string]string // of each flag's value
}

const nodesFlag = "nodes"

// flags adds the flags of the settings.
func (s *settings) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.urls, nodesFlag, nil, "URLs of the `nodes`, with commas or by repeating the flag: redis://host:port/db, rediss://…, unix://…, redis-sentinel://host?master=NAME or redis-cluster://host; @FILE reads them from a file")
	flags.StringVar(&s.profile, "profile", "", "take the settings that no flag and no variable gives from the profile `name`, or from a file with a slash in its name (see \"quorumlock profile\")")
	flags.BoolVar(&s.insecureArgv, "insecure-argv", false, "allow passwords in arguments, which every user of this machine sees in ps")
	flags.StringVar(&s.Prefix, "prefix", "", "the `prefix` of keys on the nodes (WithKeyPrefix)")
	flags.DurationVar(&s.TTL, "ttl", 30*time.Second, "the `lease` of a lock (WithTTL)")
	flags.DurationVar(&s.LongestTTL, "longest-ttl", 0, "the longest `lease` that any client takes, for --guard and --clock-guard (default: --ttl)")
	flags.DurationVar(&s.NodeTimeout, "node-timeout", 0, "how `long` one node may take (WithNodeTimeout; default: 250ms, or a quarter of --ttl if that is less)")
	flags.Float64Var(&s.Drift, "drift", 0.01, "how far clocks may run apart, as a `part` of the time (WithDriftFactor)")
	flags.BoolVar(&s.Fences, "fences", false, "locks have fences (WithFences)")
	flags.BoolVar(&s.RestartGuard, "guard", false, "nodes that may have forgotten votes sit out the longest lease (WithRestartGuard)")
	flags.BoolVar(&s.ClockGuard, "clock-guard", false, "nodes whose clock was set forward do so, too (WithClockGuard)")
	flags.Uint64Var(&s.NodeSet, "node-set", 0, "the `id` of this list of nodes, under --guard (WithNodeSet)")
	flags.IntVar(&s.Replicated, "replicated", 0, "a vote counts once so many `replicas` have it (WithDurability)")
	flags.BoolVar(&s.Durable, "durable", false, "a vote counts once it is on the disks of the node and of these replicas (WithDurability)")
}

// names are the settings that a profile may give.
func (s *settings) names() (names []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(settings).flags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "profile" && f.Name != "insecure-argv" {
			names = append(names, f.Name)
		}
	})
	return names
}

// variable is the environment's name of a flag.
func variable(flag string) string {
	return "QUORUMLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// byHand are the flags that take a key from its holder, or may make two holders. Each use of one is
// written out: a variable that somebody has set once would answer for all that come later.
var byHand = []string{"force", "now", "yes", "gone"}

// load gives every flag that was not given the value of its variable, or of the profile, and
// checks the settings.
func (s *settings) load(flags *pflag.FlagSet, getenv func(string) string) (err error) {
	s.origins = make(map[string]string)
	if f := flags.Lookup("profile"); f != nil && !f.Changed {
		s.profile = getenv(variable(f.Name))
	}
	var file profile
	if flags.Lookup("nodes") != nil {
		if file, err = openProfile(s.profile, getenv); err != nil {
			return exit(exitConfig, err)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		value, origin := getenv(variable(f.Name)), "environment "+variable(f.Name)
		if entry, ok := file[f.Name]; ok && value == "" {
			value, origin = entry.value, entry.origin
		}
		switch {
		case err != nil || f.Name == "help" || f.Name == versionFlag || slices.Contains(byHand, f.Name):
		case f.Changed:
			s.origins[f.Name] = "flag --" + f.Name
		case value == "":
			s.origins[f.Name] = "default"
		default:
			s.origins[f.Name] = origin
			if f.Value.Set(value) != nil { // what it says has the value, which may be a secret
				err = exitf(exitConfig, "%s: %s: not a value of --%s, %s", origin, f.Name, f.Name, f.Usage)
			}
		}
	})
	if err != nil || flags.Lookup("nodes") == nil {
		return err
	}
	return s.check()
}

// check finds the first setting that no Locker takes, by making one that asks nobody.
func (s *settings) check() error {
	locker, err := redlock.New([]driver.Node{{Name: "none", Driver: nobody{}}}, s.locker()...)
	if err == nil {
		return locker.Close()
	}
	for _, origin := range s.origins {
		if strings.HasPrefix(origin, "flag") {
			return exit(exitUsage, err)
		}
	}
	return exit(exitConfig, err)
}

// nobody is a node that is never asked.
type nobody struct{}

func (nobody) Do(context.Context, []driver.Command) ([]driver.Reply, error) {
	return nil, driver.ErrNotSent
}

// longest is the longest lease of any client.
func (s *settings) longest() time.Duration { return max(s.LongestTTL, s.TTL) }

// locker returns the settings as options of a Locker.
func (s *settings) locker() []redlock.Option {
	options := []redlock.Option{
		redlock.WithTTL(s.TTL),
		redlock.WithKeyPrefix(s.Prefix),
		redlock.WithDriftFactor(s.Drift),
	}
	add := func(set bool, option redlock.Option) {
		if set {
			options = append(options, option)
		}
	}
	add(s.NodeTimeout != 0, redlock.WithNodeTimeout(s.NodeTimeout))
	add(s.Fences, redlock.WithFences())
	add(s.RestartGuard, redlock.WithRestartGuard(s.longest()))
	add(s.NodeSet != 0, redlock.WithNodeSet(s.NodeSet))
	add(s.ClockGuard, redlock.WithClockGuard(s.longest()))
	add(s.Durable || s.Replicated != 0, redlock.WithDurability(redlock.Durability{Disk: s.Durable, Replicas: s.Replicated}))
	return options
}

// open makes the nodes. Nothing is sent. Whoever makes no Locker of them closes them.
func (s *settings) open() ([]driver.Node, error) {
	urls, err := s.nodes()
	if err != nil {
		return nil, err
	}
	nodes, err := goredis.Open(urls...)
	if err != nil {
		return nil, exit(s.fault("nodes"), err)
	}
	return nodes, nil
}

// openLocker makes a Locker of the nodes. Nothing is sent.
func (s *settings) openLocker(options ...redlock.Option) (*redlock.Locker, error) {
	nodes, err := s.open()
	if err != nil {
		return nil, err
	}
	locker, err := redlock.New(nodes, append(s.locker(), options...)...)
	if err != nil {
		closeNodes(nodes)
	}
	return locker, err
}

// fault is the code of a setting that is not valid: where it stands says whose fault it is.
func (s *settings) fault(name string) int {
	if strings.HasPrefix(s.origins[name], "flag") {
		return exitUsage
	}
	return exitConfig
}

// show is a setting's value as it may be seen.
func (s *settings) show(f *pflag.Flag) string {
	if f.Name != "nodes" {
		return f.Value.String()
	}
	urls, _ := s.nodes() // which are valid, or nothing is shown
	for i, url := range urls {
		urls[i] = address(url)
	}
	return strings.Join(urls, " ")
}
