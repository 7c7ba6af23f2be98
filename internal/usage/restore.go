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

// Place is where Restore continues: after a key of a period of a rule, for the loss at the time Lost, ms. The zero
// value is the beginning.
type Place struct {
	Lost   int64  `json:"l"`
	Rule   int64  `json:"r"`
	Period int64  `json:"p"`
	Key    string `json:"k"`
}

// Missing is a key whose counter is below its statement.
type Missing struct {
	Row
	// RuleName is the name of the rule, and Units is Spent minus the count in the store.
	RuleName string
	Units    int64
}

// Restored is what one call of Restore found.
type Restored struct {
	// Missing are the keys whose counters lack units, and Read is the number of compared keys.
	Missing []Missing
	Read    int
	// Next is where the next call continues, nil at the end.
	Next *Place
	// Lost says that the counters still lack units of statements. At the end it says that the call was dry, or that the
	// counters were lost again during the restore.
	Lost bool
}

// Restore compares up to WriteBatch keys of statements with the counters, and charges the missing units, unless dry. It
// covers periods that began before the loss and can still be read. At the end, statements may decrease with the
// counters again. A counter that is above its statement stays unchanged. The id of a charge consists of rule, period,
// key and loss. So each key is charged once for a loss, however often Restore is repeated, even concurrently. Errors
// come from the store or the database; on an error some keys may have been charged.
func (r *Recorder) Restore(ctx context.Context, from Place, dry bool) (Restored, error) {
	at, err := r.losses(ctx)
	if err != nil || at == 0 {
		return Restored{}, err
	}
	if from.Lost == 0 {
		from.Lost = at
	}
	c, period, err := r.restorable(ctx, from)
	switch {
	case err != nil:
		return Restored{}, err
	case c == nil && !dry:
		if err := r.opt.Database.ClearUsageLost(ctx, from.Lost); err != nil {
			return Restored{}, err
		}
		at, err = r.lostAt(ctx)
		return Restored{Lost: at != 0}, err
	case c == nil:
		return Restored{Lost: true}, nil
	}
	after := ""
	if c.Rule.ID == from.Rule && period == from.Period {
		after = from.Key
	}
	rows, err := r.opt.Database.Usage(ctx, Query{Rule: c.Rule.ID, Period: period, After: after, Most: WriteBatch})
	if err != nil {
		return Restored{}, err
	}
	l := c.Base(period)
	out := Restored{Read: len(rows), Lost: true,
		Next: &Place{Lost: from.Lost, Rule: c.Rule.ID, Period: period, Key: lastKey}}
	if len(rows) == WriteBatch {
		out.Next.Key = rows[len(rows)-1].Key
	}
	for some := range slices.Chunk(rows, readBatch) {
		missing, err := r.missing(ctx, some, l, from.Lost, dry)
		if err != nil {
			return Restored{}, err
		}
		for i := range missing {
			missing[i].RuleName = c.Rule.Name
		}
		out.Missing = append(out.Missing, missing...)
	}
	return out, nil
}

// lastKey is behind the keys of all rows, which begin with a brace.
const lastKey = "~"

// losses returns the time at which the loss of the counters was detected, 0 if there was none. It detects a new loss
// itself.
func (r *Recorder) losses(ctx context.Context) (int64, error) {
	if intact, err := r.read(ctx, nil); err != nil {
		return 0, err
	} else if !intact {
		return r.found(ctx)
	}
	return r.opt.Database.UsageLost(ctx)
}

// restorable returns the next rule and period at or behind a place whose counters can be restored, nil at the end.
func (r *Recorder) restorable(ctx context.Context, from Place) (*match.Compiled, int64, error) {
	set, now := r.opt.Sets.Load(), r.opt.Now().UnixMilli()
	for id := from.Rule; ; id++ {
		c := nextKept(set, id)
		if c == nil {
			return nil, 0, nil
		}
		id = c.Rule.ID
		periods, err := r.opt.Database.UsagePeriods(ctx, id, mostReadable)
		if err != nil {
			return nil, 0, err
		}
		for _, period := range slices.Backward(periods) {
			behind := id == from.Rule && (period < from.Period || period == from.Period && from.Key == lastKey)
			l := c.Base(period)
			l.Anchor = period
			if !behind && period < from.Lost && l.PeriodEnd()+limiter.PeriodKept > now {
				return c, period, nil
			}
		}
	}
}

// mostReadable is the number of periods of a rule that can be read at once: the periods of a day, the present one, and
// one that has just begun on another node's clock.
const mostReadable = int(limiter.PeriodKept/limiter.MinPeriod) + 2

// nextKept returns the rule in force with the smallest id from an id on whose periods are kept.
func nextKept(set *match.Set, id int64) (next *match.Compiled) {
	for i := 0; set != nil && i < set.Len(); i++ {
		c := set.At(i)
		if c.Limit.PerPeriod && c.Rule.ID >= id && (next == nil || c.Rule.ID < next.Rule.ID) {
			next = c
		}
	}
	return next
}

// missing returns the units that the counters of some rows lack, and charges them, unless dry.
func (r *Recorder) missing(ctx context.Context, rows []Row, l limiter.Limit, lostAt int64, dry bool) ([]Missing,
	error) {
	store := r.Watch(r.opt.Store)
	looks := make([]limiter.Call, len(rows))
	for i := range rows {
		key, limit := rows[i].Bucket(l)
		looks[i].Request = limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: key, Limit: limit}}}
	}
	if err := decided(ctx, store, looks); err != nil {
		return nil, err
	}
	var list []Missing
	var charges []limiter.Call
	for i := range rows {
		units := rows[i].Spent - looks[i].Result.Limits[0].Used
		if units <= 0 {
			continue
		}
		list = append(list, Missing{Row: rows[i], Units: units})
		req := looks[i].Request
		req.Op, req.ID, req.Keep = limiter.OpCharge, rows[i].restoreID(lostAt), limiter.RecordKeepMax
		req.Asks = []limiter.Ask{{Key: req.Asks[0].Key, Limit: req.Asks[0].Limit, Weight: units}}
		charges = append(charges, limiter.Call{Request: req})
	}
	if dry || len(charges) == 0 {
		return list, nil
	}
	if err := decided(ctx, store, charges); err != nil {
		return nil, err
	}
	charged := list[:0]
	for i := range list {
		if !charges[i].Result.Replayed {
			charged = append(charged, list[i])
		}
	}
	return charged, nil
}

// decided makes some calls.
func decided(ctx context.Context, store limiter.Store, calls []limiter.Call) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	store.DoAll(limited, calls)
	return firstError(calls)
}

// restoreID is the id of the charge that restores a row after a loss.
func (r *Row) restoreID(lostAt int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d|%d|%s|%d", r.Rule, r.Period, r.Key, lostAt))
	return "restore:" + base64.RawURLEncoding.EncodeToString(sum[:])
}
