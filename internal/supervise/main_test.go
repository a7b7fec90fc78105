//go:build linux

package supervise

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
)

// TestMain is also the guard of the tests, and the program that they run.
func TestMain(m *testing.M) {
	Init()
	switch {
	case len(os.Args) == 3 && os.Args[1] == tickerName:
		tick(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == renewerName:
		renew(os.Args[2], os.Args[3])
	case len(os.Args) == 2 && os.Args[1] == threadsName:
		threads()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or guards with the race detector end a second late
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1} {
		if signal.Ignored(s) { // by who runs the tests; a shell that starts so sets no trap for it
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	leak.Main(m)
}

const tickerName = "ticker"

// tick writes the time of the shared clock to a file every millisecond, and ignores what asks it
// to end.
func tick(name string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	file, err := os.Create(name) //nolint:gosec // the test's own
	if err != nil {
		panic(err)
	}
	for range time.Tick(time.Millisecond) {
		_, _ = fmt.Fprintln(file, int64(now()))
	}
}

const renewerName = "renewer"

// renew runs a script under a lease that nobody renews.
func renew(lease, text string) {
	d, err := time.ParseDuration(lease)
	if err == nil {
		l := holdFor(d)
		_ = os.WriteFile(filepath.Join(os.Getenv("D"), "until"), fmt.Appendln(nil, l.until.UnixNano()), 0o600) //nolint:gosec // a folder of the test, which misses it
		_, err = Run(context.Background(), l, Program{Path: "/bin/sh", Args: []string{"sh", "-c", text}}, Options{TTL: roomy, Grace: 100 * time.Millisecond, Alone: true})
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

const threadsName = "threads"

// threads needs eight threads at once when this user may start none.
func threads() {
	enlist()
	if err := syscall.Setrlimit(rlimitNPROC, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
		panic(err)
	}
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		panic(err)
	}
	var inside, over sync.WaitGroup
	inside.Add(8)
	for range 8 {
		over.Go(func() {
			inside.Done()
			_, _ = syscall.Read(ends[0], make([]byte, 1)) // takes a thread until something comes
		})
	}
	inside.Wait()
	_, _ = syscall.Write(ends[1], make([]byte, 8))
	over.Wait()
	_, _ = os.Stdout.WriteString("done")
	os.Exit(0)
}

const rlimitNPROC = 6 // from asm-generic/resource.h

// A hold is a lease whose deadline the test sets.
type hold struct {
	mu    sync.Mutex
	until time.Time
}

func holdFor(d time.Duration) *hold { return &hold{until: time.Now().Add(d)} }

func (h *hold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *hold) extend(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Now().Add(d)
}

// roomy is a TTL whose margin is 200ms. The leases of the tests are shorter.
const roomy = 20 * time.Second

// long is the lease of tests in which it does not end.
const long = time.Hour

// script is a program in the shell's language, with the test's folder as $D.
func script(t *testing.T, text string) (p Program, folder string) {
	t.Helper()
	folder = t.TempDir()
	return Program{Path: "/bin/sh", Args: []string{"sh", "-c", text}, Env: append(os.Environ(), "D="+folder)}, folder
}

// awaitFile returns what a file of the program says once it has a line.
func awaitFile(t *testing.T, folder, name string) string {
	t.Helper()
	var line string
	patient.Until(t, "the program has written "+name, func() (ok bool) {
		line, ok = written(folder, name)
		return ok
	})
	return line
}

// written returns what a file of the program says, if it has a line.
func written(folder, name string) (line string, ok bool) {
	text, _ := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the test's own
	return strings.CutSuffix(string(text), "\n")
}

// letGo makes the file that the program waits for.
func letGo(t *testing.T, folder string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func awaitPid(t *testing.T, folder, name string) int {
	t.Helper()
	pid, err := strconv.Atoi(awaitFile(t, folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// awaitPids returns the numbers that files of the program say, in order; none, if it is over before.
func awaitPids[T any](t *testing.T, over <-chan T, folder string, names ...string) (pids []int) {
	t.Helper()
	patient.Until(t, fmt.Sprintf("the program has written %q, or is over", names), func() bool {
		pids = nil
		for _, name := range names {
			if line, ok := written(folder, name); ok {
				pid, _ := strconv.Atoi(line)
				pids = append(pids, pid)
			}
		}
		return len(pids) == len(names) || len(over) > 0
	})
	if len(pids) < len(names) {
		return nil
	}
	return pids
}

// state is the letter by which the kernel says how a process is; "": there is none.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}

// descendants are the processes that run and have the folder of a script in their environment, as
// all that it has started do, and nothing else on the machine does.
func descendants(t *testing.T, folder string) (pids []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(names) == 0 {
		t.Fatalf("/proc shows no process: %v", err)
	}
	for _, name := range names {
		environ, _ := os.ReadFile(name) //nolint:gosec // it has ended, or is another user's: none of the script
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if bytes.Contains(environ, []byte("D="+folder+"\x00")) && runs(state(pid)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether a process in this state can still do anything.
func runs(state string) bool { return state != "" && state != "Z" && state != "X" }

// A record is what Run tells.
type record struct {
	mu     sync.Mutex
	events []Event
}

func (r *record) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// has reports how often a thing has happened.
func (r *record) has(w What) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.What == w {
			n++
		}
	}
	return n
}

// await waits until a thing has happened so often, or Run has returned.
func (r *record) await(t *testing.T, over <-chan outcome, w What, often int) {
	t.Helper()
	patient.Until(t, fmt.Sprintf("%s is told %d times", w, often), func() bool { return r.has(w) >= often || len(over) > 0 })
}

// An outcome is what Run has returned.
type outcome struct {
	Result
	err error
}

// begin runs a program while the test goes on.
func begin(t *testing.T, l Lease, p Program, o Options) <-chan outcome {
	t.Helper()
	over := make(chan outcome, 1)
	go func() {
		result, err := Run(t.Context(), l, p, o)
		over <- outcome{result, err}
	}()
	return over
}

func await(t *testing.T, over <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-over:
		return o
	case <-time.After(patient.Guard):
		t.Fatal("Run has not returned")
		return outcome{}
	}
}
