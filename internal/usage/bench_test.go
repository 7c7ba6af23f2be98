package usage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/internal/usage"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
	"sluice/rules"
	"sluice/rules/match"
)

// benchKeys returns how many keys a period has: 10,000, or SLUICE_BENCH_KEYS.
func benchKeys() int {
	if n, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_KEYS")); err == nil {
		return n
	}
	return 10_000
}

// BenchmarkClose reads all keys of a period that has ended, and writes their rows. The first round inserts them.
func BenchmarkClose(b *testing.B) {
	for kind, dsn := range map[string]func(testing.TB) string{"postgres": testenv.Postgres,
		"sqlite": func(t testing.TB) string { return filepath.Join(t.TempDir(), "rules.db") }} {
		b.Run(kind, func(b *testing.B) { benchmarkClose(b, dsn(b), benchKeys()) })
	}
}

func benchmarkClose(b *testing.B, dsn string, n int) {
	client, err := redisstore.NewClient(testenv.Redis(b).URL(), redisstore.ClientOptions{DialTimeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	clock := storetest.NewClock(start + hour)
	store, err := redisstore.New(redisstore.Options{Client: client, Clock: clock.Now, MaxWait: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	db, err := database.Open(b.Context(), database.Options{DSN: dsn})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	meter := rules.Rule{ID: 1, Name: "meter", Scope: "user", Algorithm: "fixed_window", Unlimited: true, WindowMS: day,
		KeepPeriods: new(int64(2)), IsActive: true}
	set, err := match.Compile([]rules.Rule{meter}, 1, match.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var sets match.Current
	sets.Store(set)
	limit := set.At(0).Base(start)
	for from := 0; from < n; from += usage.WriteBatch {
		calls := make([]limiter.Call, min(usage.WriteBatch, n-from))
		for i := range calls {
			row := usage.Row{Rule: 1, Period: start, Key: fmt.Sprintf("{user:%d}", from+i)}
			key, l := row.Bucket(limit)
			calls[i].Request = limiter.Request{Op: limiter.OpCharge, Asks: []limiter.Ask{{Key: key, Limit: l, Weight: 1}}}
		}
		store.DoAll(b.Context(), calls)
		for i := range calls {
			if calls[i].Err != nil {
				b.Fatal(calls[i].Err)
			}
		}
	}
	r := usage.NewRecorder(usage.Options{Store: store, Lister: store, Database: db, Sets: &sets,
		Left: func() int64 { return 0 }, Now: func() time.Time { return time.UnixMilli(clock.Now()) }})
	clock.Set(start + day + hour)
	for b.Loop() {
		clock.Advance(1)
		r.AskAll()
		r.Record(b.Context())
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	totals, err := db.UsageTotals(b.Context(), 1, "", []int64{start})
	if err != nil || len(totals) != 1 || totals[0].Keys != int64(n) || totals[0].Spent != int64(n) {
		b.Errorf("the statement is %+v, %v, want %d keys", totals, err, n)
	}
}
