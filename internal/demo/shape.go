package demo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"

	"sluice/api/decide"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules/match"
)

const (
	// perSecond is the number of requests in a second of the busiest time of the day, without floods.
	perSecond = 25
	// users is the number of users. The first heavyUsers send most, the next regularUsers more than the others. The
	// store keeps ten keys of a rule and hour, so that the keys of these users are always among them.
	users, heavyUsers, regularUsers = 18, 3, 4
	// floodPerSecond is the number of requests of a flood in each of its floodSeconds. It is above hotRate, from which on
	// a key is hot; no other key comes near.
	floodPerSecond, floodSeconds, hotRate = 20, 8, 15
	// floodMinutes is how many minutes lie between the beginnings of two floods.
	floodMinutes = 6
	// flooder is the address that tries passwords.
	flooder = "203.0.113.99"
	// seed makes the figures of a second always the same.
	seed = 52
)

// tenants are the tenants of the users, in turn.
var tenants = []string{"acorn", "birch", "cedar", "elm", "fir", "hazel", "ivy", "juniper", "linden", "maple"}

// flow is a kind of request.
type flow struct {
	method, route string
	// rule counts it, besides quota.
	rule string
	// percent is its part of the requests, denied the part of them that its rule denies at the busiest time, and used
	// the percentage of the limit that the busiest key uses at that time.
	percent, denied, used float64
}

var flows = []flow{
	{"POST", "/v1/charges", charges, 30, 0.035, 96},
	{"GET", "/v1/search", search, 36, 0.006, 60},
	{"POST", "/v1/login", logins, 3, 0, 50},
	{"GET", "/v1/reports", reports, 5, 0.02, 90},
	{"GET", "/v1/invoices", invoices, 26, 0.015, 92},
}

// wave is the part of perSecond that arrives at a second since 1970: 0.3 at 02:00 UTC, 1 at 14:00.
func wave(second int64) float64 {
	hour := float64(second%86_400) / 3600
	return 0.65 - 0.35*math.Cos((hour-2)*math.Pi/12)
}

// counted are the figures of a second by flow, and of all requests.
type counted struct {
	flows []history.Figures
	// flood are the denied requests of a flood, which is not among flows.
	flood int64
	all   history.Figures
}

// decidedAt is what was decided in a second of the past. starved: the node lacked CPU, flooding: an address tried
// passwords.
func decidedAt(second int64, starved, flooding bool) counted {
	rng := rand.New(rand.NewPCG(seed, uint64(second))) //nolint:gosec // not a secret
	part := func(of float64) int64 { return int64(of + rng.Float64()) }
	busy := wave(second)
	c := counted{flows: make([]history.Figures, len(flows))}
	for i := range flows {
		f := &flows[i]
		n := part(perSecond * busy * f.percent / 100 * (0.8 + 0.4*rng.Float64()))
		over := min(n, part(float64(n)*f.denied*max(0, 2*busy-1)))
		of := history.Figures{Allowed: n - over, Denied: over}
		switch f.rule {
		case charges:
			of.WouldAllow = min(over, part(float64(over)*0.9)) // by the candidate
		case reports:
			of.Elastic = min(of.Allowed, part(float64(n)*0.06))
		case invoices:
			of = history.Figures{Allowed: n, WouldDeny: over} // in shadow mode
		}
		if of.Use = history.UseOf(int64(f.used*(0.4+0.6*busy)), 100); over > 0 {
			of.Use = history.UseOf(104, 100)
		}
		if starved && f.rule != logins {
			of.Degraded = min(of.Allowed, 1)
		}
		c.flows[i] = of
		c.all.Add(of)
	}
	if flooding {
		c.flood = part(floodPerSecond * (0.5 + 0.5*busy))
		c.all.Denied += c.flood
	}
	return c
}

// userName, ipOf and tenantOf are the facts of a user, counted from 1.
func userName(user int) string { return fmt.Sprint("user-", user) }
func ipOf(user int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(user)}) } //nolint:gosec // below 31
func tenantOf(user int) string { return tenants[(user-1)%len(tenants)] }

// weight is how much a user sends, compared with others.
func weight(user int) int64 {
	switch {
	case user <= heavyUsers:
		return 20
	case user <= heavyUsers+regularUsers:
		return 12
	}
	return 9
}

// weights is the sum of the weights of all users.
var weights = func() (sum int64) {
	for user := 1; user <= users; user++ {
		sum += weight(user)
	}
	return sum
}()

// userOf is the user of a number in [0, weights).
func userOf(n int64) int {
	user := 1
	for n -= weight(user); n >= 0; n -= weight(user) {
		user++
	}
	return user
}

// question is a request of a flow by a user.
func question(f *flow, user int) decide.Question {
	return decide.Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{
		Method: f.method, Route: f.route, User: userName(user), IP: ipOf(user),
		Attributes: map[string]string{"tenant": tenantOf(user)},
	}}
}

// attempt is a request of a flood. Nobody is signed in yet, so that it has neither user nor tenant.
func attempt() decide.Question {
	return decide.Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{
		Method: "POST", Route: "/v1/login", IP: netip.MustParseAddr(flooder),
	}}
}
