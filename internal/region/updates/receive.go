package updates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/rules/match"
)

const (
	// mostApplying is how many messages are applied at once; further ones are refused and sent again. A single sender
	// has no more under way.
	mostApplying = mostUnderWay
	// mostUnknown is how many unknown rules an answer names; of further ones it says nothing.
	mostUnknown = 1000
	// applyAtOnce is how many buckets are applied in one call of the store, so that checks do not wait long behind it.
	applyAtOnce = 100
)

// Answer says what became of a message.
type Answer struct {
	// From is the region that answers, At its time, ms since the epoch, and Set the version of its rules.
	From string `json:"from"`
	At   int64  `json:"at"`
	Set  int64  `json:"set"`
	region.Fate
	// UnknownRules are the ids of the rules of unknown buckets, unless there are too many.
	UnknownRules []int64 `json:"unknown_rules,omitempty"`
}

// Receive applies a message of another region. The error wraps region.ErrMessage, region.ErrBusy or a
// *limiter.StoreError, or is a *region.RefusedError. After an error some buckets may have been applied; to apply them
// again does no harm.
func (x *Exchange) Receive(ctx context.Context, body []byte) (*Answer, error) {
	select {
	case x.applying <- struct{}{}:
		defer func() { <-x.applying }()
	default:
		return nil, region.ErrBusy
	}
	now := x.opt.Now()
	m, err := Decode(body, now.UnixMilli())
	if err != nil {
		x.Refused(err)
		return nil, err
	}
	if refused := m.Refuse(x.opt.Self, x.opt.Prefix, x.names); refused != nil {
		x.Refused(refused)
		return nil, refused
	}
	a := &Answer{From: x.opt.Self, At: now.UnixMilli()}
	if set := x.opt.Sets.Load(); set != nil {
		a.Set = set.Version()
	}
	if err := x.apply(ctx, m.From, m.Buckets, a, now, nil); err != nil {
		return nil, err
	}
	x.peer(m.From).received(a, len(body))
	ctx, cancel := context.WithTimeout(ctx, arrivalsWait)
	defer cancel()
	return a, x.opt.Arrivals.Received(ctx, m.From, arrivalOf(m, now), x.arrivalLife())
}

// refusalPause is the time between two lines of the log about messages of a region that are refused.
const refusalPause = time.Minute

// Refused notes that this node has refused a message, of whatever kind, and why. A *region.RefusedError says who has
// sent it.
func (x *Exchange) Refused(why error) {
	now, count := x.opt.Now(), x.counts.invalid.Add(1)
	from := "" // a region that this one knows
	var refused *region.RefusedError
	if errors.As(why, &refused) {
		if p := x.peer(refused.From); p != nil {
			p.refuse(why.Error(), now)
			from = p.Name
		}
	}
	x.mu.Lock()
	last, early := x.refusals[from]
	if early = early && now.Sub(last) < refusalPause; !early {
		x.refusals[from] = now
	}
	x.mu.Unlock()
	if !early {
		x.opt.Log.Warn("a message of another region was refused", "region", from, "because", why.Error(), "refused", count)
	}
}

// peer is the region of a name, nil if there is none.
func (x *Exchange) peer(name string) *peer {
	if i := slices.Index(x.names, name); i >= 0 {
		return x.peers[i]
	}
	return nil
}

// apply books the sums of a region in all buckets, some at a time. Those of this region are restored. It ends with the
// first bucket that the store does not take, unless refused takes note of it.
func (x *Exchange) apply(ctx context.Context, from string, buckets []Bucket, a *Answer, now time.Time,
	refused *refusals) error {
	op := limiter.OpApply
	if from == x.opt.Self {
		op = limiter.OpRestore
	}
	set := x.opt.Sets.Load()
	var calls []limiter.Call
	flush := func() error {
		x.opt.Apply.DoAll(ctx, calls)
		for i := range calls {
			switch c := &calls[i]; {
			case broken(c.Err):
				a.Shrunk++
			case c.Err != nil && !refused.add(ctx, c.Request.Asks[0].Key, c.Err):
				return fmt.Errorf("apply what %s spent: %w", from, c.Err)
			case c.Err != nil:
			case c.Result.Replayed:
				a.Repeated++
			case !c.Result.Allowed:
				a.Shrunk++
			default:
				a.Applied++
			}
		}
		calls = calls[:0]
		return nil
	}
	unknown := map[int64]bool{}
	defer func() {
		if len(unknown) <= mostUnknown {
			a.UnknownRules = slices.Sorted(maps.Keys(unknown))
		}
	}()
	for i := range buckets {
		b := &buckets[i]
		var limit limiter.Limit
		ok := false
		if set != nil {
			_, limit, ok = set.Spanning(b.Key, now)
		}
		if !ok {
			a.Unknown++
			id, _ := match.RuleID(b.Key)
			unknown[id] = true
			continue
		}
		calls = append(calls, limiter.Call{Request: limiter.Request{Op: op, ID: from, Sums: &b.Sums,
			Asks: []limiter.Ask{{Key: b.Key, Limit: b.Sums.Limit(limit), Spans: true}}}})
		if len(calls) == applyAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return flush()
}

// broken reports whether an error is about one bucket. To send that again does not help, and must not keep the others
// back.
func broken(err error) bool {
	var se *limiter.StoreError
	return errors.As(err, &se) && (se.Cause == limiter.CauseBadState || se.Cause == limiter.CauseWrongType)
}

// arrivalOf is the part of a message that the nodes of this region keep: the version of the sender's rules; how far the
// sender's clock is ahead of the clock of this node, in ms, less the time that the message was in transit; and the
// regions from which the sender is disconnected.
func arrivalOf(m *Message, now time.Time) string {
	what := strconv.FormatInt(m.Set, 10) + " " + strconv.FormatInt(m.At-now.UnixMilli(), 10)
	if len(m.CutOff) > 0 {
		what += cutOffMark + strings.Join(m.CutOff, ",")
	}
	return what
}

// cutOffMark stands before the names of regions in what nodes keep of a message.
const cutOffMark = " cut_off:"
