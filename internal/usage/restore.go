package usage

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"sluice/limiter"
	"sluice/rules/match"
)

// Missing is what the counter of a key lacks of its statement.
type Missing struct {
	Row
	// Units are Spent less the count in the store.
	Units int64
}

// Restore compares a page of the statement of a rule's present period with the counters, and charges what they lack,
// unless dry. It returns the keys whose counters lack something, and after which key the next page begins, "" at the
// end. A counter that has more stays as it is. A charge has an id of its rule, period, key and reading, so that it is
// made once if the call is repeated. Errors are those of the store and of the database; some keys may be charged then.
func (r *Recorder) Restore(ctx context.Context, c *match.Compiled, after string, dry bool) (list []Missing, next string,
	err error) {
	l := c.Base(r.opt.Now().UnixMilli())
	rows, err := r.opt.Database.Usage(ctx, Query{Rule: c.Rule.ID, Period: l.Anchor, After: after, Most: WriteBatch})
	if err != nil {
		return nil, "", err
	}
	store := r.Watch(r.opt.Store)
	for some := range slices.Chunk(rows, readBatch) {
		looks := make([]limiter.Call, len(some))
		for i := range some {
			key, limit := some[i].Bucket(l)
			looks[i].Request = limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: key, Limit: limit}}}
		}
		if err := decided(ctx, store, looks); err != nil {
			return list, "", err
		}
		var charges []limiter.Call
		for i := range some {
			units := some[i].Spent - looks[i].Result.Limits[0].Used
			if units <= 0 {
				continue
			}
			list = append(list, Missing{some[i], units})
			req := looks[i].Request
			req.Op, req.ID, req.Keep = limiter.OpCharge, some[i].restoreID(), limiter.RecordKeepMax
			req.Asks = []limiter.Ask{{Key: req.Asks[0].Key, Limit: req.Asks[0].Limit, Weight: units}}
			charges = append(charges, limiter.Call{Request: req})
		}
		if dry || len(charges) == 0 {
			continue
		}
		if err := decided(ctx, store, charges); err != nil {
			return list, "", err
		}
	}
	if len(rows) == WriteBatch {
		next = rows[len(rows)-1].Key
	}
	return list, next, nil
}

// Restored says that the counters are those of the statements again: from now on statements follow them down too.
func (r *Recorder) Restored(ctx context.Context) error { return r.opt.Database.SetUsageLost(ctx, 0) }

// decided makes some calls.
func decided(ctx context.Context, store limiter.Store, calls []limiter.Call) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	store.DoAll(limited, calls)
	return firstError(calls)
}

// restoreID is the id of the charge that restores a row.
func (r *Row) restoreID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d|%d|%s|%d", r.Rule, r.Period, r.Key, r.Seen))
	return "restore:" + base64.RawURLEncoding.EncodeToString(sum[:])
}
