package main

import (
	"context"
	"fmt"
	"time"

	"sluice/api/client"
)

// goClient keeps callers of the Go client busy for the given time and returns the latency of each check. The callers
// share one client, or have one each, which sends every check alone.
func goClient(ctx context.Context, addr string, sc scenario, keys int, length time.Duration) ([]time.Duration, error) {
	clients := make([]*client.Client, 1)
	if sc.alone {
		clients = make([]*client.Client, sc.callers)
	}
	for i := range clients {
		var err error
		// A check that waits longer would be decided by the client, and not be measured.
		if clients[i], err = client.New("http://"+addr, client.Options{Timeout: 5 * time.Second}); err != nil {
			return nil, err
		}
		defer clients[i].Close() //nolint:gocritic // deferInLoop: all are in use until the end
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
