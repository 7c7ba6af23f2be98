package limiter

import (
	"fmt"
	"strings"
)

// FormerKey returns the key of the bucket that the ask's limit used before it was edited, as Former describes.
func (a *Ask) FormerKey() Key {
	return a.Key[:strings.LastIndexByte(string(a.Key), '|')+1] + Key(a.Former.Suffix())
}

// checkFormer returns what is wrong with Former.
func (a *Ask) checkFormer() error {
	switch {
	case !Movable(*a.Former, a.Limit):
		return fmt.Errorf("%w: what was spent cannot move from %s to %s", ErrInvalid, a.Former.Algorithm, a.Limit.Algorithm)
	case a.Spans:
		return fmt.Errorf("%w: what was spent cannot move where a limit spans regions", ErrInvalid)
	}
	return nil
}

// Movable reports whether an edit from limit a to limit b needs Ask.Former to keep what was spent, and can. Where the
// kinds are the same, and both or neither are PerPeriod, the bucket stays.
func Movable(a, b Limit) bool {
	counts := func(t *Traits) bool { return t.Decay != DecayNone && !t.Slots && !t.Internal }
	return (a.Algorithm.Kind() != b.Algorithm.Kind() || a.PerPeriod != b.PerPeriod) && counts(a.Algorithm.Traits()) &&
		counts(b.Algorithm.Traits())
}

// Move charges the units that are spent in an ask's former bucket to its bucket to at time now (ms), at most the ask's
// capacity. The caller then deletes the former bucket. Move reports whether it changed to.
func Move(a *Ask, former, to *State, now int64) bool {
	if !former.Exists {
		return false
	}
	from, k := a.Former.Algorithm.Traits().kernel, a.Limit.Algorithm.Traits().kernel
	from.rebase(*a.Former, former, now)
	room, _ := from.figures(*a.Former, former, now)
	w := min(a.Former.Capacity()-max(0, room), a.Limit.Capacity())
	if w <= 0 {
		return false
	}
	if to.Exists {
		k.rebase(a.Limit, to, now)
	}
	k.spend(a.Limit, to, now, w, "")
	to.Exists = true
	return true
}

// WideLook returns the request that a store answers in place of req, if req is a peek at limits with a Former: it also
// peeks at the former buckets, which follow the others. ok is false for all other requests. Narrow turns the answer
// into that for req.
//
// A peek thus moves no units.
func WideLook(req *Request) (wide Request, ok bool) {
	if req.Op != OpPeek {
		return Request{}, false
	}
	for i := range req.Asks {
		if req.Asks[i].Former == nil {
			continue
		}
		if !ok {
			wide, ok = *req, true
			wide.Asks = append(make([]Ask, 0, 2*len(req.Asks)), req.Asks...)
		}
		wide.Asks[i].Former = nil
		wide.Asks = append(wide.Asks, Ask{Key: req.Asks[i].FormerKey(), Limit: *req.Asks[i].Former})
	}
	return wide, ok
}

// Narrow turns res, the answer to WideLook of req, into the answer to req, as if the units of the former buckets had
// moved. res must hold the decisions of that answer: after an error it still holds the decisions of an earlier request.
// If the units have already moved, and a node that has not loaded the edit has spent more since, the waits are computed
// as if all units were spent now.
func Narrow(req *Request, res *Result) {
	n := len(req.Asks)
	former := res.Limits[n:]
	res.Limits, res.Allowed = res.Limits[:n], true
	for i := range req.Asks {
		a, d := &req.Asks[i], &res.Limits[i]
		if a.Former != nil {
			if w := min(former[0].Used, former[0].Limit, a.Limit.Capacity()); w > 0 {
				*d = fresh(a, addExact(d.Used, w), res.At)
			}
			former = former[1:]
		}
		res.Allowed = res.Allowed && d.Allowed
	}
}

// fresh is the decision of a peek at a bucket in which only the given units have been spent, all of them now.
func fresh(a *Ask, spent, now int64) Decision {
	var s State
	a.Limit.Algorithm.Traits().kernel.spend(a.Limit, &s, now, spent, "")
	s.Exists = true
	var out [1]Decision
	var changed [1]bool
	var charged [1]Charged
	Decide(OpPeek, []Ask{*a}, "", []*State{&s}, now, changed[:], out[:], charged[:])
	return out[0]
}
