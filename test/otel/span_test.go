package otel

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	apitrace "go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestExemplarsLeadToTheSpanOfTheAcquire(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		release(t, l.acquire("k"))
		acquires := l.named("redlock.acquire")
		if len(acquires) != 1 {
			t.Fatalf("there are %d spans redlock.acquire, want 1", len(acquires))
		}
		id := acquires[0].SpanContext.TraceID().String()
		for _, name := range []string{"redlock.acquire.duration", "redlock.acquire.tries", "redlock.hold.duration", "redlock.release.duration"} {
			if all := l.points(name); len(all) != 1 || !slices.Equal(all[0].Exemplars, []string{id}) {
				t.Errorf("%s is %v, want one exemplar of the trace %s", name, all, id)
			}
		}
	})
}

func TestSpansOfALockThatIsHad(t *testing.T) {
	inBubble(t, settings{locker: []redlock.Option{redlock.WithFences()}}, func(t *testing.T, l *lab) {
		lock := l.acquire("orders:42", redlock.WithTTL(time.Minute))
		under := apitrace.SpanContextFromContext(lock.Context())
		time.Sleep(time.Second)
		const far = 20 * time.Millisecond
		for _, n := range l.nodes {
			n.SlowDown(far)
		}
		release(t, lock)
		acquire, free := l.named("redlock.acquire")[0], l.named("redlock.release")[0]
		if under.SpanID() != acquire.SpanContext.SpanID() || free.Parent.SpanID() != acquire.SpanContext.SpanID() {
			t.Error("what is done under the lock, and the release, are not below the span of the acquire")
		}
		if acquire.SpanKind != apitrace.SpanKindInternal || acquire.Status.Code != codes.Unset || len(acquire.Events) > 0 || acquire.InstrumentationScope.Version == "" {
			t.Errorf("the span of the acquire is %+v, want an internal one without an error, and a version of its scope", acquire)
		}
		for name, value := range map[string]string{
			"redlock.key": "orders:42", "redlock.kind": "exclusive", "redlock.outcome": "acquired", "redlock.path": "direct", "redlock.tries": "1",
		} {
			if !has(acquire, name, value) {
				t.Errorf("the span of the acquire has %v, want %s=%s", acquire.Attributes, name, value)
			}
		}
		if !slices.ContainsFunc(acquire.Attributes, func(kv attribute.KeyValue) bool {
			return kv.Key == "redlock.fence" && kv.Value.AsInt64() == lock.Fence()
		}) {
			t.Errorf("the span of the acquire has %v, want the fence %d", acquire.Attributes, lock.Fence())
		}
		if took := free.EndTime.Sub(free.StartTime); took < far || took > soon || free.StartTime.Sub(acquire.EndTime) < time.Second || !has(free, "redlock.outcome", "released") {
			t.Errorf("the span of the release is %+v", free)
		}
		if holds, batches := l.named("redlock.hold"), l.named("redlock.batch"); len(holds)+len(batches) > 0 {
			t.Errorf("there are %d spans of holds and %d of batches, which nobody has asked for", len(holds), len(batches))
		}
	})
}

func TestOnlyAMissingQuorumIsTheErrorOfASpan(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		l.nodes.Take("k", time.Minute)
		_, err := l.locker.TryAcquire(t.Context(), "k")
		wantErr(t, err, redlock.ErrTaken)
		l.nodes[1:].Stop()
		_, err = l.locker.TryAcquire(t.Context(), "k")
		wantErr(t, err, redlock.ErrNoQuorum)
		all := l.named("redlock.acquire")
		for i, tt := range []struct {
			outcome string
			status  codes.Code
			vote    string
		}{
			{"held", codes.Unset, ": taken"},
			{"no_quorum", codes.Error, ": failed"},
		} {
			s := all[i]
			if !has(s, "redlock.outcome", tt.outcome) || s.Status.Code != tt.status || has(s, "error.type", "no_quorum") != (tt.status == codes.Error) {
				t.Errorf("the span is %+v, want %s with the status %v", s, tt.outcome, tt.status)
			}
			if len(s.Events) != 1 || s.Events[0].Name != "redlock.try.failed" {
				t.Fatalf("the events are %+v, want the failed try", s.Events)
			}
			votes := s.Events[0].Attributes[0].Value.AsStringSlice()
			count := 0
			for i, vote := range votes {
				if vote == l.nodes[i].Addr()+tt.vote {
					count++
				}
			}
			if len(votes) != size || count < size/2+1 {
				t.Errorf("the votes are %q, want all nodes', a quorum of them %q", votes, tt.vote)
			}
		}
		if what := all[1].Status.Description; !strings.Contains(what, `"k"`) {
			t.Errorf("the status says %q, want the error", what)
		}
	})
}

func TestHoldsHaveSpansIfTheyAreAskedFor(t *testing.T) {
	with := settings{telemetry: []otelredlock.Option{otelredlock.WithHoldSpans()}}
	inBubble(t, with, func(t *testing.T, l *lab) {
		lock := l.acquire("k")
		time.Sleep(time.Second)
		release(t, lock)
		l.acquire("k", redlock.WithTTL(2*time.Second))
		l.nodes[1:].Stop()
		time.Sleep(10 * time.Second)
		holds := l.named("redlock.hold")
		if len(holds) != 2 {
			t.Fatalf("there are %d spans redlock.hold, want 2", len(holds))
		}
		first, second := holds[0], holds[1]
		if took := first.EndTime.Sub(first.StartTime); took < time.Second || took > time.Second+soon || !has(first, "redlock.end", "released") || first.Status.Code != codes.Unset {
			t.Errorf("the first hold is %+v, want it to be released after 1s", first)
		}
		if !has(second, "redlock.end", "lost") || !has(second, "error.type", "no_quorum") || second.Status.Code != codes.Error {
			t.Errorf("the second hold is %+v, want it to be lost for lack of a quorum", second)
		}
		if started, ended := len(l.recorder.Started()), len(l.recorder.Ended()); started != ended {
			t.Errorf("%d spans were started, and %d ended", started, ended)
		}
		if parent := l.named("redlock.acquire")[0].SpanContext.SpanID(); first.Parent.SpanID() != parent {
			t.Errorf("the hold's parent is %v, want its acquire %v", first.Parent.SpanID(), parent)
		}
	})
}

func TestBatchesHaveSpansThatLeadToTheirAcquiresIfTheyAreAskedFor(t *testing.T) {
	with := settings{telemetry: []otelredlock.Option{otelredlock.WithBatchSpans()}}
	inBubble(t, with, func(t *testing.T, l *lab) {
		lock := l.acquire("k")
		synctest.Wait() // until all nodes have answered
		release(t, lock)
		synctest.Wait()
		acquire := l.named("redlock.acquire")[0].SpanContext
		linked := 0
		for _, b := range l.named("redlock.batch") {
			if b.SpanKind != apitrace.SpanKindClient || b.Parent.IsValid() || !has(b, "db.system.name", "redis") || !has(b, "server.port", "6379") {
				t.Errorf("the span of a batch is %+v, want a client's without a parent", b)
			}
			if len(b.Links) == 1 && b.Links[0].SpanContext.SpanID() == acquire.SpanID() {
				linked++
			}
		}
		if linked != size {
			t.Errorf("%d batches lead to the acquire, want one for each of %d nodes", linked, size)
		}
		// An exemplar of the batches leads to the span of one.
		for _, p := range l.points("redlock.node.batch.duration") {
			if len(p.Exemplars) == 0 {
				t.Errorf("the batches %v have no exemplar", p)
			}
		}
		l.nodes[2].Stop()
		release(t, l.acquire("k"))
		synctest.Wait()
		if !slices.ContainsFunc(l.named("redlock.batch"), func(s tracetest.SpanStub) bool { return s.Status.Code == codes.Error }) {
			t.Error("no batch to a node that is down has failed")
		}
	})
}

func TestWithoutKeysNoSpanHasAKey(t *testing.T) {
	const secret = "patient-4711"
	with := settings{telemetry: []otelredlock.Option{otelredlock.WithoutKeys(), otelredlock.WithHoldSpans(), otelredlock.WithBatchSpans()}}
	inBubble(t, with, func(t *testing.T, l *lab) {
		release(t, l.acquire(secret))
		l.nodes.Take(secret, time.Minute)
		_, err := l.locker.TryAcquire(t.Context(), secret)
		wantErr(t, err, redlock.ErrTaken)
		l.nodes[1:].Stop()
		_, err = l.locker.TryAcquireAll(t.Context(), []string{secret, "b"})
		wantErr(t, err, redlock.ErrNoQuorum)
		if all := l.export(); strings.Contains(all, secret) {
			t.Errorf("the key is in what is exported:\n%s", all)
		} else if !strings.Contains(all, "no_quorum") {
			t.Errorf("the error is not in what is exported:\n%s", all)
		}
	})
}

func TestKeysThatAreNoTextDoNotSpoilAnExport(t *testing.T) {
	with := settings{telemetry: []otelredlock.Option{otelredlock.WithKeyName(func(key string) string { return key })}}
	inBubble(t, with, func(t *testing.T, l *lab) {
		const key = "a\xffb"
		release(t, l.acquire(key))
		l.nodes[1:].Stop()
		_, err := l.locker.TryAcquire(t.Context(), key)
		wantErr(t, err, redlock.ErrNoQuorum)
		if all := l.export(); !utf8.ValidString(all) || !strings.Contains(all, "a\uFFFDb") {
			t.Errorf("the export is no valid text, or lacks the key: %q", all)
		}
	})
}

func TestAnAcquireThatIsNotSampledHasNoSpansBelowIt(t *testing.T) {
	never := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	with := settings{telemetry: []otelredlock.Option{otelredlock.WithTracerProvider(never), otelredlock.WithHoldSpans()}}
	inBubble(t, with, func(t *testing.T, l *lab) {
		release(t, l.acquire("k"))
		if all := l.spans.GetSpans(); len(all) > 0 {
			t.Errorf("there are spans: %v", all)
		}
		if p := l.want("redlock.release.duration", "redlock.handed_over=false,redlock.outcome=released", 1); len(p.Exemplars) > 0 {
			t.Errorf("there are exemplars of a trace that nobody has: %v", p)
		}
	})
}
