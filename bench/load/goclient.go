package main

import (
	"context"
	"fmt"
	"time"

	"sluice/api/client"
	"sluice/bench/process"
	"sluice/internal/localtoken"
)

// goClient keeps callers of the Go client busy for the given time and returns the latency of each check. The callers
// share one client, or have one each, which sends every check alone.
func goClient(ctx context.Context, to process.Target, sc scenario, keys int, length time.Duration) ([]time.Duration,
	error) {
	clients := make([]*client.Client, 1)
	if sc.alone {
		clients = make([]*client.Client, sc.callers)
	}
	// The client would decide a check that waits longer, and the check would not be measured.
	opt := client.Options{Timeout: 5 * time.Second}
	if sc.hot { // leases need a token
		var err error
		if opt.Token, err = localtoken.Read(to.DataDir); err != nil {
			return nil, err
		}
	}
	for i := range clients {
		var err error
		if clients[i], err = client.New("http://"+to.Addr, opt); err != nil {
			return nil, err
		}
		defer clients[i].Close() //nolint:gocritic // deferInLoop: all are in use until the end
	}
	if sc.hot {
		return hotCallers(ctx, clients[0], sc, length)
	}
	return workers(sc.callers, func(i int) ([]time.Duration, error) {
		var lat []time.Duration
		c, end := clients[i%len(clients)], time.Now().Add(length)
		for n := i; ; n += sc.callers {
			start := time.Now()
			if start.After(end) {
				return lat, nil
			}
			key := n % keys
			a, err := c.Check(ctx, client.Check{Method: "POST", Route: "/v1/charges", IP: fmt.Sprintf("203.0.113.%d", n%250),
				User: fmt.Sprintf("u%d", key), APIKey: fmt.Sprintf("k%d", key)})
			if err != nil {
				return nil, err
			}
			if a.ByClient {
				return nil, fmt.Errorf("the client's fail mode decided: %+v", a)
			}
			lat = append(lat, time.Since(start))
		}
	})
}

// sampled is how many checks of a hot key are made for each that is measured, because the clock would cost as much as a
// decision in memory.
const sampled = 64

// hotCallers is goClient about one user. It returns the latency of one check in sampled.
func hotCallers(ctx context.Context, c *client.Client, sc scenario, length time.Duration) ([]time.Duration, error) {
	check := c.Check
	if sc.near {
		near := client.NewNear(c, client.NearOptions{})
		defer near.Close()
		check = near.Check
	}
	q := client.Check{Method: "POST", Route: "/v1/charges", User: "u1"}
	return workers(sc.callers, func(int) ([]time.Duration, error) {
		var lat []time.Duration
		for end := time.Now().Add(length); ; {
			start := time.Now()
			if start.After(end) {
				return lat, nil
			}
			for i := range sampled {
				a, err := check(ctx, q)
				if err != nil {
					return nil, err
				}
				if a.ByClient || !a.Allowed {
					return nil, fmt.Errorf("not allowed by the service: %+v", a)
				}
				if i == 0 {
					lat = append(lat, time.Since(start))
				}
			}
		}
	})
}
