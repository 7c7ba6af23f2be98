// Package statstest has figures of busy rules, for measurements.
//
// One worked example: with recent := historytest.NewBusy(1000), a history.Writer moves figures of 1,000 rules, each with
// decisions in every minute, to the rule database.
package historytest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"

	"sluice/internal/history"
)

// keys is the number of keys, routes and tenants of a rule in an hour: more than a row holds.
const keys = 20

// Busy is a history.Recent in which every rule has decisions in every minute, and many active keys, routes and tenants in
// every hour, so that every row is as full as it can be. The figures of a minute are always the same. It is safe for
// concurrent use.
type Busy struct{ rules []string }

var _ history.Recent = (*Busy)(nil)

// NewBusy creates one with n rules, named as Name says.
func NewBusy(n int) *Busy {
	b := &Busy{}
	for i := range n {
		b.rules = append(b.rules, Name(i))
	}
	return b
}

// Name is the name of a rule by its number, which is below 100,000.
func Name(i int) string { return fmt.Sprintf("uploads-per-team-%05d", i) }

// figures are those of a rule in a minute: one rule in ten decides 100,000 requests a minute, the others a thousand;
// one in ten has a candidate, one in ten has soft and elastic limits and a pool.
func (*Busy) figures(rule int, minute int64) history.Figures {
	rng := rand.New(rand.NewPCG(uint64(rule), uint64(minute))) //nolint:gosec // not a secret
	n := int64(1000)
	if rule%10 == 0 {
		n = 100_000
	}
	f := history.Figures{Allowed: n/2 + rng.Int64N(n), Denied: rng.Int64N(n / 10)}
	switch rule % 10 {
	case 1:
		f.WouldDeny, f.WouldAllow = rng.Int64N(n/20), rng.Int64N(n/50)
	case 2:
		f.Soft, f.Elastic, f.Shed = rng.Int64N(n/20), rng.Int64N(n/20), rng.Int64N(n/50)
	}
	return f
}

// Seconds implements history.Recent. It knows none.
func (*Busy) Seconds(_ context.Context, _ string, first, last int64) ([]history.Point, error) {
	var out []history.Point
	for s := first; s <= last; s++ {
		out = append(out, history.PointAt(s))
	}
	return out, nil
}

// Minutes implements history.Recent.
func (b *Busy) Minutes(_ context.Context, first, last int64) ([]history.RecentMinute, error) {
	var out []history.RecentMinute
	for m := first; m <= last; m++ {
		r := history.RecentMinute{Minute: m, Known: true, Rules: make(map[string]history.Figures, len(b.rules)+3)}
		for i, rule := range b.rules {
			r.Rules[rule] = b.figures(i, m)
		}
		for _, all := range []string{"", history.NodePrefix + "10.0.0.1:8080", history.NodePrefix + "10.0.0.2:8080"} {
			r.Rules[all] = b.figures(0, m)
		}
		out = append(out, r)
	}
	return out, nil
}

// Peaks implements history.Recent.
func (b *Busy) Peaks(_ context.Context, minute int64) (map[string]int64, error) {
	out := make(map[string]int64, len(b.rules))
	for i, rule := range b.rules {
		f := b.figures(i, minute)
		out[rule] = f.Total()/20 + minute%7
	}
	return out, nil
}

// Tops implements history.Recent.
func (*Busy) Tops(_ context.Context, hour int64, rules []string) (map[string]history.Tops, error) {
	rng := rand.New(rand.NewPCG(1, uint64(hour))) //nolint:gosec // not a secret
	tops := history.Tops{}
	for by, key := range map[string]string{history.ByKey: "user:%016x", history.ByRoute: "POST /v1/accounts/:id/%04x",
		history.ByTenant: "tenant-%06x"} {
		top := history.Top{Rest: rng.Int64N(1000)}
		for range keys {
			top.Entries = append(top.Entries, history.TopEntry{Key: fmt.Sprintf(key, rng.Uint64N(1<<16)),
				Allowed: rng.Int64N(50_000), Denied: rng.Int64N(5000), Over: rng.Int64N(1000), Variance: rng.Int64N(100_000)})
		}
		tops[by] = top
	}
	out := map[string]history.Tops{}
	for _, rule := range rules {
		out[rule] = maps.Clone(tops)
	}
	return out, nil
}

// Forget implements history.Recent.
func (*Busy) Forget(context.Context, int64, int64, int64, []string) error { return nil }
