package webtest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sluice/internal/history"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
)

// SampleRules are a dozen of every sort.
func SampleRules() []rules.Rule {
	text := func(s string) *string { return &s }
	list := []rules.Rule{
		{Name: "charges-per-user", Description: "Protects the card processor.", Owner: text("payments"), Scope: "user",
			Route: text("/v1/charges"), Method: text("POST"), Limit: 100, WindowMS: 60_000, FailMode: rules.FailLocal},
		{Name: "search-per-user", Description: "One search a second on average, bursts of 20.", Scope: "user",
			Route: text("/v1/search"), Algorithm: "token_bucket", Limit: 60, WindowMS: 60_000, Burst: new(int64(20))},
		{Name: "logins-per-address", Description: "Guessing passwords has to be slow.", Scope: "ip", Route: text("/v1/login"),
			Method: text("POST"), Algorithm: "sliding_window_log", Limit: 5, WindowMS: 300_000, FailMode: rules.FailClosed},
		{Name: "daily-quota-per-tenant", Description: "The quota in the contract, by the calendar.", Scope: "attr:tenant",
			Algorithm: "fixed_window", Limit: 1_000_000, WindowMS: 86_400_000},
		{Name: "exports-at-a-time", Description: "Exports are heavy; two may run at once.", Scope: "apikey",
			Route: text("/v1/exports/*"), Algorithm: "concurrency", Limit: 2, WindowMS: 600_000, FailMode: rules.FailLocal},
		{Name: "webhooks-paced", Scope: "attr:endpoint", Route: text("/internal/webhooks"), Algorithm: "leaky_queue",
			Limit: 10, WindowMS: 1000, Burst: new(int64(50))},
		{Name: "tighter-charges", Description: "On trial before it replaces charges-per-user.", Scope: "user",
			Route: text("/v1/charges"), Limit: 60, WindowMS: 60_000, Mode: rules.ModeShadow},
		{Name: "everything-per-address", Description: "The last line of defence.", Scope: "ip", Limit: 6000,
			WindowMS: 60_000},
		{Name: "reports-per-key", Scope: "apikey+route", Route: text("/v1/reports/{id}"), Method: text("GET"),
			Algorithm: "gcra", Limit: 30, WindowMS: 3_600_000, Burst: new(int64(5))},
		{Name: "uploads-in-bytes", Description: "Weighed by the field bytes: 1 GB an hour.", Scope: "user",
			Route: text("/v1/files"), Method: text("PUT"), Limit: 1_000_000_000, WindowMS: 3_600_000, Algorithm: "fixed_window",
			WeightField: text("bytes")},
		{Name: "legacy-api", Description: "Off since the old API was retired.", Scope: "apikey", Route: text("/v0/*"),
			Limit: 10, WindowMS: 1000},
		{Name: "signups-in-all", Scope: "global", Route: text("/v1/accounts"), Method: text("POST"), Limit: 500,
			WindowMS: 3_600_000, FailMode: rules.FailClosed},
	}
	for i := range list {
		r := &list[i]
		r.ID, r.Version, r.IsActive = int64(i+1), int64(i%4+1), r.Name != "legacy-api"
		r.CreatedAt, r.UpdatedAt = Now.Add(-900*time.Hour), Now.Add(-time.Duration(120+i*i*73)*time.Minute)
		r.Normalize()
	}
	return list
}

// ManyRules are n rules that differ in name and route.
func ManyRules(n int) []rules.Rule {
	sample := SampleRules()
	list := make([]rules.Rule, n)
	for i := range list {
		r := sample[i%len(sample)].Clone()
		r.ID, r.Name = int64(i+1), fmt.Sprintf("%s-%05d", r.Name, i)
		list[i] = r
	}
	return list
}

// ManyLive are figures of the last ten minutes of every rule, the most denied first, as history.Live has them.
func ManyLive(list []rules.Rule) []history.RuleLive {
	out := make([]history.RuleLive, len(list))
	for i := range list {
		denied := int64(len(list) - i)
		out[i] = history.RuleLive{Name: list[i].Name, Minute: history.Figures{Allowed: 1000, Denied: denied}}
		for ten := range 60 {
			out[i].Tens = append(out[i].Tens, history.Point{At: Now.Add(time.Duration(ten-60) * 10 * time.Second),
				Figures: history.Figures{Allowed: int64(150 + ten), Denied: denied / 6, Use: int64(40 + ten + i%7*5)}})
		}
	}
	return out
}

// node returns the state of this node.
func node(set *match.Set) history.Status {
	return history.Status{
		ID: "a1b2c3", Address: "127.0.0.1:8080", Version: "v1.0.0", Started: Now.Add(-50 * time.Hour).UnixMilli(),
		At:         Now.UnixMilli(),
		SetVersion: set.Version(), Rules: set.Len(), Source: "database", Confirmed: Now.Add(-time.Second).UnixMilli(),
		Ready: true, Store: "memory",
	}
}

// threeNodes makes a world one of three nodes with Redis and Postgres, all well.
func threeNodes(w *World) {
	w.Node.Embedded, w.Node.Store, w.Node.Address, w.Node.HotKeys = false, "redis", "10.0.0.11:8080", 2
	w.Node.Breakers = []history.Breaker{{Server: "10.0.0.7:6379", State: "closed",
		Since: Now.Add(-31 * time.Hour).UnixMilli(), Opened: 1, Cause: "timeout"}}
	w.Fleet.Figures.Nodes = nil
	for i, address := range []string{"10.0.0.11:8080", "10.0.0.12:8080", "10.0.0.13:8080"} {
		n := w.Node.Status
		n.Address, n.Started = address, Now.Add(-50*time.Hour+time.Duration(i)*4*time.Minute).UnixMilli()
		if i > 0 {
			n.ID, n.HotKeys = []string{"", "d4e5f6", "0718af"}[i], i-1
		}
		w.Fleet.Figures.Nodes = append(w.Fleet.Figures.Nodes, history.NodeLive{Status: n})
	}
}

// RedisDown is that a node cannot use Redis.
var RedisDown = trouble.Trouble{Subject: "10.0.0.7:6379", Cause: "timeout", Condition: &trouble.Condition{
	Banner: "Redis is unreachable. Rules are falling back to their fail modes."}}

var errAway = errors.New("the board is away")

// fail takes Redis and the rule database away from a world of three nodes.
func fail(w *World) {
	w.Node.Embedded, w.Node.Store = false, "redis"
	w.Node.Confirmed = Now.Add(-4 * time.Minute).UnixMilli()
	w.Node.Breakers = []history.Breaker{{Server: "10.0.0.7:6379", State: "open",
		Since: Now.Add(-40 * time.Second).UnixMilli(), Opened: 3, Cause: "timeout"}}
	w.Node.Trouble = []trouble.Trouble{RedisDown}
	other, silent := w.Node.Status, w.Node.Status
	other.ID, other.Address = "d4e5f6", "10.0.0.12:8080"
	silent.ID, silent.Address, silent.SetVersion = "0718af", "10.0.0.13:8080", silent.SetVersion-1
	w.Fleet.Figures.Nodes = []history.NodeLive{{Status: w.Node.Status}, {Status: other}, {Status: silent, Silent: true}}
	w.Fleet.Figures.At, w.Fleet.Figures.Err = Now.Add(-40*time.Second), errAway
	for i := range w.Fleet.Figures.Seconds[140:] {
		w.Fleet.Figures.Seconds[140+i].Degraded = w.Fleet.Figures.Seconds[140+i].Allowed
	}
}

// traffic is three minutes of a busy API.
func traffic(list []rules.Rule) history.Live {
	live := history.Live{At: Now}
	for i := range 180 {
		wave := 1 + .35*math.Sin(float64(i)/17) + .1*math.Sin(float64(i)*1.7)
		live.Seconds = append(live.Seconds, history.Point{At: Now.Add(time.Duration(i-180) * time.Second),
			Figures: history.Figures{
				Allowed: int64(1240 * wave), Denied: int64(38 * wave * wave), WouldDeny: int64(9 * wave),
			}})
	}
	for n, r := range list[:6] {
		rule := history.RuleLive{Name: r.Name,
			Minute: history.Figures{Allowed: int64(9000 / (n + 1)), Denied: int64(700 / (n*n + 1))}}
		for i := range 60 {
			rule.Tens = append(rule.Tens, history.Point{At: Now.Add(time.Duration(i-60) * 10 * time.Second),
				Figures: history.Figures{
					Allowed: int64(1500 / (n + 1)), Denied: int64(float64(110/(n*n+1)) * (1 + math.Sin(float64(i)/7+float64(n)))),
					Use: int64(70 - 9*n + int(40*math.Sin(float64(i)/7+float64(n)))),
				}})
		}
		live.Rules = append(live.Rules, rule)
	}
	if len(list) > 6 { // the one being tested
		live.Rules = append(live.Rules, history.RuleLive{Name: list[6].Name,
			Minute: history.Figures{Allowed: 812, WouldDeny: 96}})
	}
	return live
}
