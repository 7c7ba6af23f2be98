package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/client"
)

// canned are the answers of the service of the examples, by request; a repeated request has several, in this order.
var canned = map[string][]string{
	`/ratelimit/check {"key":"user:42:exports","limit":100,"window_ms":60000}`: {
		`{"allowed":true,"status":200,"remaining":99}`,
	},
	`/ratelimit/check {"method":"POST","route":"/v1/charges","user":"42"}`: {
		`{"allowed":true,"status":200,"rule":"charges","remaining":2}`,
	},
	`/ratelimit/check {"limits":[{"name":"per-ip","key":"login:203.0.113.7","limit":20,"window_ms":60000},` +
		`{"name":"per-account","key":"login:ada","limit":5,"window_ms":900000}]}`: {
		`{"allowed":false,"status":429,"rule":"per-account","headers":{"Retry-After":"180"},"limits":[
			{"rule":"per-ip","key":"login:203.0.113.7","allowed":true,"remaining":12},
			{"rule":"per-account","key":"login:ada","allowed":false,"remaining":0}]}`,
	},
	`/ratelimit/check {"key":"user:42:reports","limit":50,"window_ms":1000,"algorithm":"gcra","burst":1}`: {
		`{"allowed":false,"status":429,"retry_after_ms":20}`,
		`{"allowed":true,"status":200}`,
	},
	`/ratelimit/check/batch {"checks":[{"key":"user:42:reads","limit":100,"window_ms":60000},` +
		`{"key":"user:42:writes","limit":10,"window_ms":60000,"weight":11}]}`: {
		`{"results":[{"allowed":true,"status":200,"remaining":99},{"allowed":false,"status":429,"remaining":10}]}`,
	},
	`/ratelimit/reserve {"route":"/v1/complete","user":"42","weight":800,"ttl_ms":60000}`: {
		`{"allowed":true,"status":200,"rule":"tokens","remaining":9200,"reservation":"AeDg7O-f","expires_in_ms":60000}`,
	},
	`/ratelimit/settle {"reservation":"AeDg7O-f","weight":230}`: {
		`{"allowed":true,"status":200,"rule":"tokens","remaining":9770,"refunded":570}`,
	},
}

// service stands in for Sluice and gives these answers.
func service() *httptest.Server {
	var mu sync.Mutex
	asked := map[string]int{}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := r.URL.Path + " " + string(body)
		mu.Lock()
		defer mu.Unlock()
		if asked[request] == len(canned[request]) {
			http.Error(w, "no answer to "+request, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, canned[request][asked[request]])
		asked[request]++
	}))
}

// A check with a Key brings its own limit, so it needs no rule.
func Example() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second}) // 25 ms by default
	if err != nil {
		panic(err)
	}
	defer c.Close()

	a, err := c.Check(context.Background(), client.Check{
		Key:   "user:42:exports",
		Limit: &client.Limit{Count: 100, WindowMS: 60_000},
	})
	if err != nil {
		panic(err)
	}
	if !a.Allowed {
		fmt.Println("denied with status", a.Status)
		return
	}
	fmt.Println("allowed,", *a.Remaining, "remaining")
	// Output: allowed, 99 remaining
}

// A check that describes its request is decided by the rules of the service, or by the fail mode of the client while
// the service is unavailable.
func ExampleClient_Check_failMode() {
	s := service()
	c, err := client.New(s.URL, client.Options{FailMode: client.FailClosed, Timeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	charge := client.Check{Method: "POST", Route: "/v1/charges", User: "42"}
	a, err := c.Check(context.Background(), charge)
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Allowed, a.Rule, *a.Remaining)

	s.Close() // the service is unavailable from here on
	a, err = c.Check(context.Background(), charge)
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Allowed, a.Status, a.Degraded)
	// Output:
	// true charges 2
	// false 503 closed
}

// Several limits are taken all together or not at all.
func ExampleClient_Check_severalLimits() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	a, err := c.Check(context.Background(), client.Check{Limits: []client.DirectLimit{
		{Name: "per-ip", Key: "login:203.0.113.7", Limit: client.Limit{Count: 20, WindowMS: 60_000}},
		{Name: "per-account", Key: "login:ada", Limit: client.Limit{Count: 5, WindowMS: 900_000}},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Allowed, a.Rule, a.Headers["Retry-After"])
	for _, l := range a.Limits {
		fmt.Println(l.Rule, l.Allowed, *l.Remaining)
	}
	// Output:
	// false per-account 180
	// per-ip true 12
	// per-account false 0
}

// A job that has time waits as long as the answer says and checks again.
func ExampleClient_Check_retryAfter() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report := client.Check{
		Key:   "user:42:reports",
		Limit: &client.Limit{Count: 50, WindowMS: 1000, Algorithm: "gcra", Burst: new(int64(1))},
	}
	for {
		a, err := c.Check(ctx, report)
		if err != nil {
			panic(err) // the check is invalid, or ctx has ended
		}
		if a.Allowed {
			fmt.Println("allowed")
			return
		}
		if a.RetryAfterMS == nil || *a.RetryAfterMS < 0 {
			fmt.Println("waiting does not help")
			return
		}
		fmt.Println("denied for", *a.RetryAfterMS, "ms")
		select {
		case <-time.After(time.Duration(*a.RetryAfterMS) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	// Output:
	// denied for 20 ms
	// allowed
}

// Each check of a batch is decided by itself; the answers have the order of the checks.
func ExampleClient_Batch() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	checks := []client.Check{
		{Key: "user:42:reads", Limit: &client.Limit{Count: 100, WindowMS: 60_000}},
		{Key: "user:42:writes", Limit: &client.Limit{Count: 10, WindowMS: 60_000}, Weight: new(int64(11))},
	}
	answers, err := c.Batch(context.Background(), checks)
	if err != nil {
		panic(err)
	}
	for i := range answers {
		fmt.Println(checks[i].Key, answers[i].Allowed, *answers[i].Remaining)
	}
	// Output:
	// user:42:reads true 99
	// user:42:writes false 10
}

// The cost of a completion is known when it ends, so an estimate is reserved first and settled afterwards.
func ExampleClient_Reserve() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ctx := context.Background()
	completion := client.Check{Route: "/v1/complete", User: "42", Weight: new(int64(800))}
	a, err := c.Reserve(ctx, completion, time.Minute)
	if err != nil {
		panic(err)
	}
	if !a.Allowed {
		fmt.Println("denied with status", a.Status)
		return
	}
	fmt.Println("reserved 800,", *a.Remaining, "remaining")

	used := int64(230) // what the completion used
	if a.Reservation == "" {
		return // the fail mode allowed it, and nothing was charged
	}
	a, err = c.Settle(ctx, client.Settlement{Reservation: a.Reservation, Weight: &used})
	if err != nil {
		panic(err)
	}
	fmt.Println("refunded", a.Refunded, "and", *a.Remaining, "remaining")
	// Output:
	// reserved 800, 9200 remaining
	// refunded 570 and 9770 remaining
}

// While the service is unavailable, each process enforces a limit of its own.
func ExampleLocalLimit() {
	s := service()
	s.Close() // the service is unavailable
	c, err := client.New(s.URL, client.Options{
		FailMode:   client.FailLocal,
		LocalLimit: &client.LocalLimit{Limit: 2, Window: time.Hour},
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	for range 3 {
		a, err := c.Check(context.Background(), client.Check{Route: "/v1/charges", User: "42"})
		if err != nil {
			panic(err)
		}
		fmt.Println(a.Allowed, a.Status, a.Degraded, a.ByClient)
	}
	// Output:
	// true 200 local true
	// true 200 local true
	// false 429 local true
}

func ExampleNewNear() {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.URL.Path == "/ratelimit/reserve" {
			_, _ = io.WriteString(w, `{"allowed":true,"status":200,"reservation":"AeDg7O-f","expires_in_ms":10000,`+
				`"granted":100000,"spend_within_ms":1000}`)
			return
		}
		_, _ = io.WriteString(w, `{"allowed":true,"status":200}`)
	}))
	defer s.Close()
	c, err := client.New(s.URL, client.Options{FailMode: client.FailClosed, Timeout: time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	near := client.NewNear(c, client.NearOptions{Rate: 5})
	allowed := 0
	for range 10_000 {
		a, err := near.Check(context.Background(), client.Check{Route: "/v1/charges", User: "42"})
		if err != nil {
			panic(err)
		}
		if a.Allowed {
			allowed++
		}
	}
	fmt.Println(allowed, "allowed, calls fewer than 50:", calls.Load() < 50)
	// Output: 10000 allowed, calls fewer than 50: true
}
