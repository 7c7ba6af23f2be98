package decide_test

import (
	"context"
	"fmt"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules/match"
	"sluice/rules/rulefile"
)

// The engine decides in a program, without a listener and without a call: rules from a file, counters in memory.
// Another file takes effect when sets.Store has its set; GET /ratelimit/rules/export of a service returns one.
func Example_embedded() {
	file, err := rulefile.Parse([]byte(`
rules:
  - {name: charges-per-user, scope: user, method: POST, route: /v1/charges,
     limit: 2, window_ms: 60000, algorithm: fixed_window}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range file.Rules {
		file.Rules[i].ID = int64(i + 1) // names the buckets: the same rule has the same id
	}
	set, err := match.Compile(file.Rules, 1, match.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sets := &match.Current{}
	sets.Store(set)
	minute := time.Date(2026, time.November, 29, 12, 0, 0, 0, time.UTC).UnixMilli()
	store := memstore.New(memstore.Options{Clock: func() int64 { return minute }}) // without a Clock, the wall clock
	defer func() { _ = store.Close() }()
	checker, err := decide.NewChecker(decide.CheckerOptions{Sets: sets, Store: store, Now: time.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		q := decide.Question{Op: limiter.OpTake, Weight: 1,
			Descriptor: match.Descriptor{Method: "POST", Route: "/v1/charges", User: "42"}}
		var a decide.Answer
		if err := checker.Do(context.Background(), &q, &a); err != nil {
			fmt.Println(err)
			return
		}
		d := a.Limits[a.Strictest].Decision
		fmt.Println(a.Allowed(), d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 1 0
	// true 0 0
	// false 0 60000
}
