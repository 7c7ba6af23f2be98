// Package client asks a Sluice service from a Go program whether requests may pass.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{Token: token, FailMode: client.FailOpen})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	a, err := c.Check(ctx, client.Check{Method: "POST", Route: "/v1/charges", User: "42"})
//	switch {
//	case err != nil: // the check itself is invalid, or ctx has ended
//		return err
//	case !a.Allowed: // answer with a.Status, a.Headers and a.Body
//	}
//
// One Client serves a whole program. While calls are in flight, further checks gather and travel together: if 64
// goroutines check at once, the first few checks travel alone and the rest in batches. No timer is involved, so a
// check never waits when nothing is in flight.
//
// A check is decided within Options.Timeout, 25 ms by default. If the service is unreachable or too slow,
// Options.FailMode decides, and the answer says so in Degraded. After several failures in a row a circuit breaker
// decides at once, without a call, and lets one check at a time find out whether the service has recovered.
//
// A service that says that it is overloaded is no outage. A large batch that it refuses is sent again in small calls;
// a check that it has no turn for is denied, and the answer says so in Overloaded.
//
// Nothing that may have been charged is sent twice, because a repeated check would be charged twice. A caller that
// repeats a check itself sets Check.RequestID: within a minute, the service charges a repeat only once.
package client
