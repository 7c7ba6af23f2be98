package app

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/history"
	"sluice/internal/records"
	"sluice/internal/telemetry"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// BenchmarkObservers measures what a check by two rules pays for being observed, by each observer and by all.
func BenchmarkObservers(b *testing.B) {
	metrics := telemetry.New(telemetry.Build{})
	outages := &outageLog{log: slog.New(slog.NewTextHandler(io.Discard, nil)), now: time.Now}
	figures := newFleetReporter(time.Now, "tenant", "", &readiness{}, &counters{board: history.NewMemory(time.Now)})
	log := openBenchLog(b)
	timings := metrics.Timings()
	for _, part := range []struct {
		name     string
		observed decide.Observers
	}{
		{"metrics", decide.Observers{metrics}}, {"outages", decide.Observers{outages}},
		{"figures", decide.Observers{figures}}, {"decision log 1 %", decide.Observers{log}},
		{"all", decide.Observers{metrics, outages, figures, log}},
	} {
		b.Run(part.name, func(b *testing.B) {
			var o decide.Observer = part.observed
			d := observed()
			b.ReportAllocs()
			for b.Loop() {
				for range d.Answer.Limits {
					o.ObserveUnits(decide.Units{Mode: rules.ModeEnforce, Outcome: d.Outcome, By: d.By, Count: 1})
				}
				o.ObserveDecision(d)
			}
		})
	}
	b.Run("stages", func(b *testing.B) {
		for b.Loop() {
			timings.CalledAtOnce(time.Millisecond, 1)
		}
	})
}

// observed is an allowed check by two rules.
func observed() *decide.Decision {
	limit := func(rule string, key limiter.Key) decide.LimitAnswer {
		return decide.LimitAnswer{Rule: rule, Key: key, Version: 3, Known: true, Weight: 1,
			Decision: limiter.Decision{Allowed: true, Limit: 1000, Remaining: 400}}
	}
	return &decide.Decision{
		Question: &decide.Question{Weight: 1, Descriptor: match.Descriptor{Method: "POST", Route: "/v1/charges", User: "42"}},
		Answer: &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed, Limits: []decide.LimitAnswer{
			limit("charges-per-user", "{user:42}|7|swc"), limit("all-per-user", "{user:42}|8|swc")}},
		Took: 300 * time.Microsecond, Outcome: decide.OutcomeAdmitted, By: decide.ByStore,
	}
}

// openBenchLog opens a decision log of a sink that keeps nothing.
func openBenchLog(b *testing.B) *records.Log {
	b.Helper()
	account := &records.Account{}
	log, err := records.New(records.Options{Sink: keepsNothing{account}, Account: account, Rate: 1,
		Address: records.AddressPrefix, Secret: func() []byte { return nil }, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := log.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return log
}

type keepsNothing struct{ account *records.Account }

func (s keepsNothing) Write(batch records.Batch)   { s.account.Deliver(len(batch.Lines)) }
func (s keepsNothing) Oldest() time.Time           { return time.Time{} }
func (s keepsNothing) Close(context.Context) error { return nil }
