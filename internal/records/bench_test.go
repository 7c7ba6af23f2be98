package records

import (
	"context"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/match"
)

// discard is a sink that delivers without work.
type discard struct{ account *Account }

func (s discard) Write(b Batch)               { s.account.Deliver(len(b.Lines)) }
func (s discard) Close(context.Context) error { return nil }
func (s discard) Oldest() time.Time           { return time.Time{} }

// BenchmarkLog measures what a check pays for the decision log. Its goroutine encodes meanwhile, and what does not fit
// into the buffer is dropped, which costs less; drop-% says how much. BenchmarkLog_Encode is what that goroutine pays.
func BenchmarkLog(b *testing.B) {
	q, answer, denied := benched()
	for name, bench := range map[string]struct {
		rate float64
		a    *decide.Answer
	}{"not drawn": {0, &answer}, "every one": {100, &answer}, "flood of denials": {1, &denied}} {
		b.Run(name, func(b *testing.B) {
			l := benchedLog(b, bench.rate)
			d := decide.Decision{Question: &q, Answer: bench.a, Origin: q.Origin}
			b.ReportAllocs()
			for b.Loop() {
				l.ObserveDecision(&d)
			}
			if err := l.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			if t := l.opt.Account.Totals(); t.Produced > 0 {
				b.ReportMetric(100*float64(t.Dropped[RingFull.String()])/float64(t.Produced), "drop-%")
			}
		})
	}
}

func BenchmarkLog_Encode(b *testing.B) {
	q, answer, _ := benched()
	l := benchedLog(b, 100)
	if err := l.Close(context.Background()); err != nil { // so that nothing else encodes
		b.Fatal(err)
	}
	d := decide.Decision{Question: &q, Answer: &answer, Origin: q.Origin}
	all := newBuffer()
	const events = 1000
	for range events {
		all.add(1, func(raw []byte) []byte { return appendRaw(raw, drawn{now: 1, rate: 100, drawn: true}, &d) })
	}
	took := all.take(nil)
	b.ReportAllocs()
	for b.Loop() {
		for rest := took; len(rest) > 0; {
			rest = l.write(rest)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// benched are a question, an answer that allows it and one that does not.
func benched() (q decide.Question, answer, denied decide.Answer) {
	q = decide.Question{Weight: 1, Descriptor: match.Descriptor{Method: "POST", Route: "/v1/charges", User: "42",
		Attributes: map[string]string{"tenant": "acme"}}, Origin: decide.Origin{Face: "http", UserAgent: "shop/1"}}
	answer = decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed, Limits: []decide.LimitAnswer{{Rule: "charges",
		Version: 3, Key: "{user:42}|r7", Known: true,
		Decision: limiter.Decision{Allowed: true, Limit: 100, Remaining: 40, Used: 60}}}}
	denied = answer
	denied.Verdict = decide.Denied
	denied.Limits = []decide.LimitAnswer{answer.Limits[0]}
	denied.Limits[0].Decision.Allowed = false
	return q, answer, denied
}

func benchedLog(b *testing.B, rate float64) *Log {
	b.Helper()
	account := &Account{}
	l, err := New(Options{Sink: discard{account}, Account: account, Rate: rate, Address: AddressPrefix,
		Secret: func() []byte { return []byte("key") }, Node: "n", Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	return l
}
