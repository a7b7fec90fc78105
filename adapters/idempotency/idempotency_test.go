package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/adapters/idempotency"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/trial"
)

// A folder is a store that processes share.
type folder string

func (f folder) Load(_ context.Context, key string) (answer *idempotency.Answer, err error) {
	text, err := os.ReadFile(filepath.Join(string(f), url.PathEscape(key)))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

func (f folder) Save(_ context.Context, key string, answer *idempotency.Answer) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	name := filepath.Join(string(f), url.PathEscape(key))
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func nobody(*http.Request) string { return "" }

// ask sends a request with a key to a server in this process.
func ask(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/orders", strings.NewReader("one"))
	if key != "" {
		r.Header.Set(idempotency.Header, key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestARequestIsCarriedOutOnceByThreeProcessesOfWhichOneIsKilled(t *testing.T) {
	if trial.Child() {
		locks, err := redlock.New(trial.Nodes(), redlock.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		h := idempotency.Handler(locks, nobody, folder(os.Getenv("QUORUMLOCK_TRIAL_STORE")), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			trial.Work()
			_, _ = fmt.Fprintln(w, os.Getpid())
		}))
		for i := 0; t.Context().Err() == nil; { // all processes ask for the same orders
			if w := ask(h, fmt.Sprint("order ", i)); w.Code == http.StatusOK {
				trial.Say(fmt.Sprintf("order %d: %s", i, strings.TrimSpace(w.Body.String())))
				i++
			}
		}
	}
	t.Setenv("QUORUMLOCK_TRIAL_STORE", t.TempDir())
	tr := trial.Start(t)
	tr.OneIsKilled()
	answers := func() map[string]map[string]bool { // by order: which answers were sent, and how many processes have sent them
		got := map[string]map[string]bool{}
		for _, line := range tr.Lines() {
			if order, by, ok := strings.Cut(line.What, ": "); ok {
				if got[order] == nil {
					got[order] = map[string]bool{}
				}
				got[order][by] = true
			}
		}
		return got
	}
	before := len(answers())
	patient.Until(t, "more orders have an answer", func() bool { return len(answers()) > before+10 })
	for order, by := range answers() {
		if len(by) != 1 {
			t.Errorf("%s was answered by %v, want one answer", order, by)
		}
	}
}

func TestARequestIsRefused(t *testing.T) {
	locks, err := redlock.New(trial.Over(redisserver.Start(t).Addr))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	h := idempotency.Handler(locks, nobody, folder(t.TempDir()), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Order", string(body))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("done"))
	}))
	for key, want := range map[string]int{"": http.StatusBadRequest, strings.Repeat("k", 256): http.StatusBadRequest} {
		if w := ask(h, key); w.Code != want {
			t.Errorf("with a key of %d bytes the status is %d, want %d", len(key), w.Code, want)
		}
	}
	lock, err := locks.TryAcquire(t.Context(), "order 1")
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(h, "order 1"); w.Code != http.StatusConflict || w.Header().Get("Retry-After") == "" {
		t.Errorf("beside a request under way the status is %d with %v, want 409 and when to retry", w.Code, w.Header())
	}
	_ = lock.Release()
	for range 2 {
		if w := ask(h, "order 1"); w.Code != http.StatusCreated || w.Body.String() != "done" || w.Header().Get("X-Order") != "one" {
			t.Errorf("the answer is %d %q with %v, want 201, done and the handler's header", w.Code, w.Body, w.Header())
		}
	}
	if calls != 1 {
		t.Errorf("the handler was called %d times, want once", calls)
	}
	_ = locks.Close()
	if w := ask(h, "order 2"); w.Code != http.StatusServiceUnavailable || calls != 1 {
		t.Errorf("without locks the status is %d after %d calls, want 503 and no further call", w.Code, calls)
	}
}
