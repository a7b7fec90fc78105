// Locking runs tests of the core with mutexes that tell which of them are taken while others are
// held, and checks that against the order below. Nothing is changed in the tree: the mutexes are put
// in place by an overlay (go help build). It prints each pair that it has seen.
//
//	go run ./test/locking [-run regexp]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// order is that in which a goroutine takes mutexes: while it has one, it waits for none that stands
// before it, nor for a second one of the kind. A mutex is called by its package and the struct that
// it stands in; one that is not here is never taken with another.
var order = []string{
	"waiting.Lines",
	"waiting.Room",
	"subscription.Subscriber",
	"quorum.Hold",
	"quorum.cleanups",
	"quorum.Schedule",
	"quorum.SpentTokens",
	"quorum.Keys",
	"redlock.holds",
	"redlock.pool",
	"redlock.lease",
	"redlock.acquisition",
	"gate.Gates",
	"node.Set",
	"node.Node",
	"waiting.KeyWatch",
	"redlock.crew",
	"redlock.teller",
}

// twice are those of which a goroutine may have two, and which comes first.
var twice = map[string]string{
	"quorum.Hold": "that of the lock which goes on, before that of the reader which it goes on with",
}

// tests are those of the packages.
var tests = []string{"./redlock", "./internal/quorum", "./internal/waiting", "./internal/node", "./internal/gate", "./internal/subscription"}

func main() {
	run := flag.String("run", "DayOfFaults|Conversions|Semaphore|Deadlock|HandedDown|Reentry|WhoStands|CloseWaits", "take the tests whose names match this `regexp`")
	flag.Parse()
	if err := check(*run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check runs the tests, and returns what is out of order.
func check(run string) error {
	work, err := os.MkdirTemp("", "quorumlock-locking-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	names, overlay, err := replace(work)
	if err != nil {
		return err
	}
	told := filepath.Join(work, "told")
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-vet=off", "-timeout=30m", "-overlay", overlay, "-run", run}, tests...)...) //nolint:gosec,noctx // no part is from outside
	cmd.Env = append(os.Environ(), "QUORUMLOCK_LOCKING="+told)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return judge(names, told)
}

var (
	inStruct = regexp.MustCompile(`^type (\w+) struct`)
	aMutex   = regexp.MustCompile(`\bsync\.Mutex\b`)
	ofSync   = regexp.MustCompile(`\bsync\.`)
)

// replace writes the overlay, and returns the mutexes' names.
func replace(work string) (names []string, overlay string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	files := map[string]string{}
	put := func(path, text string) error {
		at := filepath.Join(work, fmt.Sprintf("%d.go", len(files)))
		files[filepath.Join(root, path)] = at
		return os.WriteFile(at, []byte(text), 0o600) //nolint:gosec // below a folder of our own
	}
	var kinds strings.Builder
	for _, folder := range tests {
		sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, "", err
		}
		for _, source := range sources {
			text, err := os.ReadFile(source) //nolint:gosec // it is the project's
			if err != nil {
				return nil, "", err
			}
			if strings.HasSuffix(source, "_test.go") || !aMutex.Match(text) {
				continue
			}
			lines, in := strings.Split(string(text), "\n"), ""
			for i, line := range lines {
				if match := inStruct.FindStringSubmatch(line); match != nil {
					in = match[1]
				}
				if aMutex.MatchString(line) {
					lines[i] = aMutex.ReplaceAllString(line, fmt.Sprintf("locking.M%d", len(names)))
					fmt.Fprintf(&kinds, kind, len(names))
					names = append(names, filepath.Base(folder)+"."+in)
				}
			}
			changed := strings.Join(lines, "\n")
			own := "\n\t\"github.com/quorumlock/quorumlock/internal/locking\"\n"
			if ofSync.MatchString(changed) {
				own = "\t\"sync\"" + own
			}
			if err := put(source, strings.Replace(changed, "\t\"sync\"\n", own, 1)); err != nil {
				return nil, "", err
			}
		}
	}
	if err := put("internal/locking/locking.go", recorder+kinds.String()); err != nil {
		return nil, "", err
	}
	content, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(work, "overlay.json")
	return names, overlay, os.WriteFile(overlay, content, 0o600)
}

// judge reads which mutexes were taken while which were held.
func judge(names []string, told string) (wrong error) {
	file, err := os.Open(told) //nolint:gosec // it was written by the tests
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for _, name := range order {
		if !slices.Contains(names, name) {
			wrong = errors.Join(wrong, fmt.Errorf("%s has no mutex: mend the order", name))
		}
	}
	pairs := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var held, taken int
		var where string
		if _, err := fmt.Sscan(lines.Text(), &held, &taken, &where); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		pair := names[held] + " -> " + names[taken]
		if pairs[pair] {
			continue
		}
		pairs[pair] = true
		at, then := slices.Index(order, names[held]), slices.Index(order, names[taken])
		if fits := at >= 0 && (at < then || at == then && twice[names[held]] != ""); !fits {
			wrong = errors.Join(wrong, fmt.Errorf("%s is taken while %s is held, at %s", names[taken], names[held], where))
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(pairs)) {
		fmt.Println(pair)
	}
	if wrong == nil && len(pairs) == 0 {
		return errors.New("no test has taken one mutex while it had another: nothing was seen")
	}
	return wrong
}

// kind is the code of one mutex.
const kind = `
type M%[1]d struct{ mu sync.Mutex }

func (m *M%[1]d) Lock()   { taken(%[1]d, true); m.mu.Lock() }
func (m *M%[1]d) Unlock() { m.mu.Unlock(); given(%[1]d) }

func (m *M%[1]d) TryLock() bool { // it does not wait
	locked := m.mu.TryLock()
	if locked {
		taken(%[1]d, false)
	}
	return locked
}
`

// recorder is the code that all share. A mutex that is given back by another goroutine than took it
// would be held for ever by that: there is none.
const recorder = `package locking

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

var (
	mu    sync.Mutex
	held  = map[uint64][]int{}
	pairs = map[[2]int]bool{}
)

func self() uint64 {
	var buf [64]byte
	id, _ := strconv.ParseUint(string(bytes.Fields(buf[:runtime.Stack(buf[:], false)])[1]), 10, 64)
	return id
}

func taken(m int, waits bool) {
	id := self()
	mu.Lock()
	defer mu.Unlock()
	for _, h := range held[id] {
		if pair := [2]int{h, m}; waits && !pairs[pair] {
			pairs[pair] = true
			_, file, line, _ := runtime.Caller(2)
			if to, err := os.OpenFile(os.Getenv("QUORUMLOCK_LOCKING"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				fmt.Fprintf(to, "%d %d %s:%d\n", h, m, file, line)
				to.Close()
			}
		}
	}
	held[id] = append(held[id], m)
}

func given(m int) {
	id := self()
	mu.Lock()
	defer mu.Unlock()
	all := held[id]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] == m {
			all = slices.Delete(all, i, i+1)
			break
		}
	}
	if held[id] = all; len(all) == 0 {
		delete(held, id)
	}
}
`
