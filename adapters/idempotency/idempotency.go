// Package idempotency answers a repeated HTTP request as the first one was answered, over any number of servers.
//
// A client sends a key of its own for each operation, in the header Idempotency-Key (RFC draft
// draft-ietf-httpapi-idempotency-key-header). The first request with a key runs under a lock, and its answer is saved before
// it is sent. Later ones get the saved answer.
package idempotency

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/quorumlock/quorumlock/redlock"
)

// Header is the name of the header with a request's key.
const Header = "Idempotency-Key"

// maxKey is the longest key, in bytes.
const maxKey = 255

// An Answer is what a handler has answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// A Store keeps answers, best where the handler writes: in one transaction with its work an answer is never without the
// work, nor the work without its answer. It is safe for concurrent use.
type Store interface {
	// Load returns the answer to a key; nil: there is none.
	Load(ctx context.Context, key string) (*Answer, error)
	// Save keeps the answer to a key. It fails if ctx has ended.
	Save(ctx context.Context, key string, answer *Answer) error
}

// Handler returns a handler that calls next once for each key. The lock's key is prefix and the request's key: put into the
// prefix what tells users apart, or one user gets another's answers.
//
// The request that next gets has a context that ends when the lock is lost: then nothing is saved, and the client gets 503,
// for the work may run again. While another request with the key is under way, the client gets 409. Without the header the
// client gets 400. The whole answer is kept in memory, and streams are not supported.
func Handler(locks *redlock.Locker, prefix func(*http.Request) string, store Store, next http.Handler, options ...redlock.AcquireOption) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(Header)
		if key == "" || len(key) > maxKey {
			http.Error(w, "want a key of 1 to 255 bytes in the header "+Header, http.StatusBadRequest)
			return
		}
		key = prefix(r) + key
		var answer *Answer
		err := locks.Do(r.Context(), key, func(ctx context.Context) (err error) {
			if answer, err = store.Load(ctx, key); err != nil || answer != nil {
				return err
			}
			made := &recorder{header: http.Header{}}
			next.ServeHTTP(made, r.WithContext(ctx))
			if err := context.Cause(ctx); err != nil { // the lock was lost: another request may be at work
				return err
			}
			answer = made.answer()
			return store.Save(ctx, key, answer)
		}, append([]redlock.AcquireOption{redlock.WithMaxWait(0)}, options...)...)
		switch {
		case errors.Is(err, redlock.ErrTaken):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "a request with this key is under way", http.StatusConflict)
		case err != nil:
			http.Error(w, "not known whether the request was carried out: send it again with the same key", http.StatusServiceUnavailable)
		default:
			for name, values := range answer.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(answer.Status)
			_, _ = w.Write(answer.Body) // the client has gone: it may ask again
		}
	})
}

// A recorder keeps what a handler answers.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 { // others only inform
		r.status = status
	}
}

func (r *recorder) Write(text []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(text)
}

func (r *recorder) answer() *Answer {
	r.WriteHeader(http.StatusOK)
	return &Answer{r.status, r.header, r.body.Bytes()}
}
