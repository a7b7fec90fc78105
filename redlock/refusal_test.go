package redlock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

func TestAnErrorOfANodeSaysWhatToDo(t *testing.T) {
	refused := func(text string) error { return (&driver.Reply{Kind: driver.Failure, Str: text}).Err() }
	for _, tt := range []struct {
		err  error
		says string
	}{
		{refused("NOPERM User lock has no permissions to run the 'evalsha' command"), "allow +evalsha)"},
		{refused("NOPERM this user has no permissions to run the 'client|setname' command"), "allow +client|setname)"},
		{refused("NOPERM No permissions to access a key"), "allow ~KEYS"},
		{refused("NOPERM this user has no permissions to access one of the channels used as arguments"), "allow &ql:free:*"},
		{refused("NOPERM something else"), "allow ~KEYS +set +get"},
		{refused("WRONGPASS invalid username-password pair"), "user or password"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "?ca=FILE"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}}, "?servername="},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "not trusted"},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "use redis://"},
		{fmt.Errorf("%w: %w", driver.ErrProtocol, driver.ErrTLS), "use rediss://"},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, "certificate of the client's"},
	} {
		if got := fault.Advise(fmt.Errorf("dial: %w", tt.err)); !strings.Contains(got.Error(), tt.says) || !errors.Is(got, tt.err) && !errors.As(got, new(*driver.ServerError)) {
			t.Errorf("fault.Advise(%v) = %v, want it with %q", tt.err, got, tt.says)
		} else if !fault.Lasting(got) {
			t.Errorf("%v is waited for, and waiting cannot mend it", got)
		}
	}
	if err := errors.New("connection reset by peer"); fault.Lasting(fault.Advise(err)) {
		t.Errorf("%v is not waited for", err)
	}
}

func TestTheWordsOfAnErrorFitItsCall(t *testing.T) {
	votes := []Vote{{Node: "node-1", Answer: Granted}}
	for op, word := range map[string]string{"release": "node-1: deleted", "acquire": "node-1: granted"} {
		if text := (&QuorumError{Op: op, Votes: votes, Reason: ErrNoQuorum}).Error(); !strings.Contains(text, word) {
			t.Errorf("the error of a %s is %q, want %q in it", op, text, word)
		}
	}
	if text := (&WaitError{Tries: 1, last: ErrTaken}).Error(); !strings.Contains(text, "(1 try in ") {
		t.Errorf("a wait with one try is %q", text)
	}
}

// A function that returns the cause of its context's end says what Do says.
func TestALossIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
			}
			<-ctx.Done()
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.refused = nil })
			}
			time.Sleep(2 * time.Second) // the nodes are asked again
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrLost) || strings.Count(err.Error(), "lock lost") != 1 || strings.Count(err.Error(), fakes[0].name) != 1 {
			t.Errorf("Do = %v, want an error that tells the loss once", err)
		}
	})
}

// A server that wants TLS resets what is not.
func TestAConnectionThatIsResetAtTheFirstContactMayWantTLS(t *testing.T) {
	for _, cut := range []error{io.EOF, &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1)
			fakes[0].change(func(f *fakeNode) { f.refused = cut })
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, cut) || !strings.Contains(err.Error(), "rediss://") {
				t.Errorf("TryAcquire = %v, want %v with what it may be", err, cut)
			}
		})
	}
}

func TestAMissingRightIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		fakes, _ := fakeNodes(3)
		fakes[0].answer = failing("INFO", "NOPERM this user has no permissions to run the 'info' command")
		locker := another(t, fakes, seen.option())
		mustRelease(t, mustAcquire(t, locker, "k"))
		synctest.Wait()
		count := 0
		for _, e := range seen.all() {
			if e.Kind == NodeUnchecked {
				count++
			}
		}
		if count != 1 {
			t.Errorf("the events are %v, want one that says +info", seen.all())
		}
	})
}
