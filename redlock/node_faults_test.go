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
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// driverFunc is a driver that breaks its contract.
type driverFunc func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error)

func (f driverFunc) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	return f(ctx, cmds)
}

func TestADriverThatBreaksItsContractIsAFailedNode(t *testing.T) {
	for name, do := range map[string]driverFunc{
		"panics":          func(context.Context, []driver.Command) ([]driver.Reply, error) { panic("oops") },
		"returns nothing": func(context.Context, []driver.Command) ([]driver.Reply, error) { return nil, nil },
		"returns too much": func(_ context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			return make([]driver.Reply, len(cmds)+3), errors.New("and an error")
		},
		"returns unknown kinds": func(_ context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			replies := make([]driver.Reply, len(cmds))
			for i := range replies {
				replies[i].Kind = 99
			}
			return replies, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes := fakeNodes(3)
			nodes[0].Driver = do
			locker, err := New(nodes)
			must(t, err)
			defer locker.Close()
			lock, err := locker.TryAcquire(t.Context(), "k")
			must(t, err, "one of three drivers", name)
			synctest.Wait()
			if vote := lock.Votes()[0]; vote.Answer == grantedVote && name != "returns too much" {
				t.Errorf("a driver that %s has voted: %v", name, vote)
			}
			noError(t, lock.Release(), "one of three drivers", name)
		})
	}
}

func TestADriverThatIgnoresItsContextHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		release := make(chan struct{})
		fakes[0].Change(func(f *fakeNode) { f.Block = release })
		began := time.Now()
		for range 100 {
			lock := mustTry(t, locker, "k")
			mustRelease(t, lock)
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("100 cycles took %v, want the 5s of the pauses", took)
		}
		if calls := fakes[0].Batches(); calls > 2+node.MaxWindow {
			t.Errorf("%d calls hang in the driver, want at most %d", calls, node.MaxWindow)
		}
		close(release)
	})
}

func TestTheScriptsSourceIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		for range 3 {
			lock := mustTry(t, locker, "k")
			noError(t, lock.Release())
		}
		if evals, shas := fakes[0].Count("EVAL"), fakes[0].Count("EVALSHA"); evals != 1 || shas != 3 {
			t.Errorf("3 releases made %d EVAL and %d EVALSHA, want 1 and 3", evals, shas)
		}
	})
}

func TestAServerThatNeverKnowsItsScriptIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		fakes[0].Change(func(f *fakeNode) {
			f.Answer = func(args []any) *driver.Reply {
				if args[0] == "EVAL" || args[0] == "EVALSHA" {
					return &driver.Reply{Kind: driver.Failure, Str: "NOSCRIPT No matching script."}
				}
				return nil
			}
		})
		returns(t, ErrNoQuorum)(lock.Release())
		fakes[0].Change(func(f *fakeNode) { f.Answer = nil })
	})
}

// An idle connection that the server has closed fails at its next use, and so do
// those to all nodes at once.
func TestABatchOnADeadConnectionIsSentOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		changeAll(fakes, func(f *fakeNode) { f.Cuts = 1 })
		lock, err := locker.TryAcquire(t.Context(), "k")
		must(t, err, "TryAcquire over connections that were closed while idle")
		changeAll(fakes, func(f *fakeNode) { f.Cuts = 1 })
		noError(t, lock.Release(), "Release over connections that were closed while idle")
		changeAll(fakes, func(f *fakeNode) { f.Cuts = 5 })
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !errors.Is(err, fakenode.ErrCut) {
			t.Errorf("TryAcquire over connections that break twice = %v, want ErrNoQuorum and the cause", err)
		}
	})
}

func TestAnErrorOfANodeSaysWhatToDo(t *testing.T) {
	refused := func(text string) error { return (&driver.Reply{Kind: driver.Failure, Str: text}).Err() }
	for _, tt := range []struct {
		err  error
		says string
	}{
		{refused("NOPERM User lock has no permissions to run the 'evalsha' command"), "allow +evalsha)"},
		{refused("NOPERM this user has no permissions to run the 'client|setname' command"), "allow +client|setname)"},
		{refused("ERR ACL failure in script: User lock has no permissions to run the 'zadd' command script: 0, on @user_script:1."), "allow +zadd)"},
		{refused("ERR unknown command 'INFO', with args beginning with: 'server' "), "does not know INFO: see that no rename-command"},
		{refused("ERR unknown command `time`"), "does not know TIME: see that no rename-command"},
		{refused("NOPERM No permissions to access a key"), "allow ~KEYS"},
		{refused("NOPERM this user has no permissions to access one of the channels used as arguments"), "allow &ql:free:*"},
		{refused("NOPERM something else"), "allow ~KEYS +set +get"},
		{refused("WRONGPASS invalid username-password pair"), "user or password"},
		{handshake(t, time.Hour, &tls.Config{}, &tls.Config{ServerName: "127.0.0.1"}), "?ca=FILE"},
		{handshake(t, time.Hour, &tls.Config{}, &tls.Config{ServerName: "h"}), "?servername="},
		{handshake(t, -time.Minute, &tls.Config{}, &tls.Config{ServerName: "127.0.0.1"}), "not trusted"},
		{handshake(t, time.Hour, nil, anybody), "use redis://"},
		{fmt.Errorf("%w: %w", driver.ErrProtocol, driver.ErrTLS), "use rediss://"},
		{handshake(t, time.Hour, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, anybody), "certificate of the client's"}, //nolint:gosec // a test's own server
		{handshake(t, time.Hour, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}, anybody), "certificate of the client's"},
		{handshake(t, time.Hour, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, anybody), "another version of TLS"}, //nolint:gosec // likewise
	} {
		if got := fault.Advise(fmt.Errorf("dial: %w", tt.err)); !strings.Contains(got.Error(), tt.says) || !errors.Is(got, tt.err) && !errors.As(got, new(*driver.ServerError)) {
			t.Errorf("fault.Advise(%v) = %v, want it with %q", tt.err, got, tt.says)
		}
	}
}

// handshake returns why a client and a server do not agree on TLS. The server's certificate is valid for
// so long; without a configuration the server speaks no TLS. A client trusts the authority where something
// else is wrong.
func handshake(t *testing.T, valid time.Duration, server, client *tls.Config) error {
	t.Helper()
	files := certificates.New(t)
	files.Issue(t, files.Cert, files.Key, valid)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	must(t, err)
	if client = client.Clone(); client.ServerName == "h" || valid < 0 {
		pem, err := os.ReadFile(files.CA)
		must(t, err)
		client.RootCAs = x509.NewCertPool()
		client.RootCAs.AppendCertsFromPEM(pem)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
	must(t, err)
	near, err := net.Dial("tcp", listener.Addr().String()) //nolint:noctx // likewise
	must(t, err)
	far, err := listener.Accept()
	must(t, err)
	_ = listener.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if server == nil {
			_, _ = far.Write([]byte("-ERR unknown command\r\n"))
		} else {
			server.Certificates = []tls.Certificate{pair}
			_ = tls.Server(far, server).HandshakeContext(t.Context())
		}
		_ = far.Close()
	}()
	conn := tls.Client(near, client)
	if err = conn.HandshakeContext(t.Context()); err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	_ = near.Close()
	<-done
	return err
}

// anybody is a client that trusts every server.
var anybody = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // on the loopback

func TestTheWordsOfAnErrorFitItsCall(t *testing.T) {
	votes := []Vote{{Node: "node-1", Answer: grantedVote}}
	for op, word := range map[string]string{"release": "node-1: deleted", "acquire": "node-1: granted"} {
		if text := (&QuorumError{Op: op, Votes: votes, Reason: ErrNoQuorum}).Error(); !strings.Contains(text, word) {
			t.Errorf("the error of a %s is %q, want %q in it", op, text, word)
		}
	}
	if text := (&waitError{Tries: 1, last: ErrTaken}).Error(); !strings.Contains(text, "(1 try in ") {
		t.Errorf("a wait with one try is %q", text)
	}
}

// A function that returns the cause of its context's end says what Do says.
func TestALossIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithRenewal())
		err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
			changeAll(fakes, func(f *fakeNode) { f.Refused = driver.NotSent(fakenode.ErrCut) })
			<-ctx.Done()
			changeAll(fakes, func(f *fakeNode) { f.Refused = nil })
			time.Sleep(2 * time.Second) // the nodes are asked again
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrLost) || strings.Count(err.Error(), "lock lost") != 1 || strings.Count(err.Error(), fakes[0].Name()) != 1 {
			t.Errorf("Do = %v, want an error that tells the loss once", err)
		}
	})
}

// A server that wants TLS resets what is not.
func TestAConnectionThatIsResetAtTheFirstContactMayWantTLS(t *testing.T) {
	for _, cut := range []error{io.EOF, &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1)
			fakes[0].Change(func(f *fakeNode) { f.Refused = cut })
			says(t, cut, "rediss://")(locker.TryAcquire(t.Context(), "k"))
		})
	}
}

func TestAMissingRightIsOneEvent(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			locker, fakes := newLocker(t, 1, seen.option())
			want := []EventKind{NodeUnchecked, NodeUp}
			if late {
				mustRelease(t, mustAcquire(t, locker, "k"))
				want = []EventKind{NodeUp, NodeUnchecked}
			}
			fakes[0].Change(func(f *fakeNode) {
				f.Answer = failing("INFO", "NOPERM this user has no permissions to run the 'info' command")
			})
			for range 5 {
				mustRelease(t, mustAcquire(t, locker, "k"))
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if kinds := seen.kinds(); !slices.Equal(kinds, want) {
				t.Errorf("the right was taken away late: %t: the events are %v, want %v", late, kinds, want)
			}
		})
	}
}

// Whoever reads a tally would read what the node's sender writes.
func TestAReplyBehindTheFinalAnswerIsInNoTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		late := driverFunc(func(_ context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			<-answers
			return make([]driver.Reply, len(cmds)), nil
		})
		locker, err := New([]driver.Node{{Name: "node", Driver: late}}, WithoutRenewal())
		must(t, err)
		defer locker.Close()
		op := locker.aside(protocol.Check, protocol.AskFitness)
		op.AskAll()
		<-op.Done
		look := func(when string) {
			if v := op.Tally().Votes[0]; v.Answer != protocol.Failed || v.Reply != nil {
				t.Errorf("%s the reply the vote is %v, with the reply %v", when, v.Answer, v.Reply)
			}
		}
		look("before")
		close(answers)
		synctest.Wait()
		look("behind")
	})
}
