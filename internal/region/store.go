package region

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// Regions is what this region knows of the others: the methods of an updates.Exchange, of share.Shares and of a
// home.Store.
type Regions interface {
	CutOff() bool
	Part(key limiter.Key, l limiter.Limit) (part limiter.Limit, together bool)

	Share(rule int64, key limiter.Key, l limiter.Limit, units int64) (part limiter.Limit, notAfter int64)
	HighWater(rule int64, l limiter.Limit) *limiter.HighWater
	ShareInterval() time.Duration

	Home(key limiter.Key) string
	Timeout() time.Duration
	Regions() int
}

// StoreOptions configure a Store. All are required; Spent only for Store.Spent.
type StoreOptions struct {
	Self    string
	Store   limiter.Store
	Sets    *match.Current
	Regions Regions
	Spent   limiter.SpentReader
	// Timeout bounds a call of Store that nobody else bounds.
	Timeout time.Duration
}

// Store is a limiter.Store that knows the other regions. It is safe for concurrent use.
type Store struct{ opt StoreOptions }

var _ limiter.Store = (*Store)(nil)

// NewStore returns a Store.
func NewStore(opt StoreOptions) *Store { return &Store{opt} }

// Do decides one request.
func (s *Store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	own, parts := s.localize(req)
	err := s.opt.Store.Do(ctx, own, res)
	return s.finish(ctx, req, parts, res, err)
}

// DoAll decides the calls independently.
func (s *Store) DoAll(ctx context.Context, calls []limiter.Call) {
	own, parts := slices.Clone(calls), make([][]*limiter.Part, len(calls))
	for i := range calls {
		req, p := s.localize(&calls[i].Request)
		own[i].Request, parts[i] = *req, p
	}
	s.opt.Store.DoAll(ctx, own)
	for i := range calls {
		c := &calls[i]
		c.Result = own[i].Result
		c.Err = s.finish(ctx, &c.Request, parts[i], &c.Result, own[i].Err)
	}
}

// localize returns a request with the parts of this region in place of its limits, and these parts; the request itself
// and nil if it has all of them.
func (s *Store) localize(req *limiter.Request) (*limiter.Request, []*limiter.Part) {
	own, parts := req, []*limiter.Part(nil)
	for i := range req.Asks {
		p := s.part(req, req.Asks[i])
		if p == nil {
			continue
		}
		if parts == nil {
			copied := *req
			own, parts = &copied, make([]*limiter.Part, len(req.Asks))
			own.Asks = slices.Clone(req.Asks)
		}
		own.Asks[i], parts[i] = p.Asked, p
		if p.Shut && i+1 < len(own.Asks) && own.Asks[i+1].Limit.Algorithm == limiter.Ban {
			own.Asks[i+1].Look = true // the key is denied whatever it has spent
		}
	}
	return own, parts
}

// part returns what this region may spend of an ask, nil for all of it.
//
// For span local_then_global this is the region's share. Takes are refused once the share may have changed; units can
// always be given back. For span global it is the whole limit, held back by a guard, while every region is connected.
// Otherwise the rule's cut_off decides: an equal part, so that all regions together stay within the limit; the whole
// limit; or nothing. A guard divides a part that connected regions use together.
func (s *Store) part(req *limiter.Request, a limiter.Ask) *limiter.Part {
	set := s.opt.Sets.Load()
	if a.SpanOf == 0 || set == nil {
		return nil
	}
	rule := set.Get(a.SpanOf)
	if rule == nil || !rule.Shares && (!rule.Global || !s.opt.Regions.CutOff()) {
		return nil
	}
	all, takes := whole(&a), req.Op == limiter.OpTake || req.Op == limiter.OpPeek
	p := &limiter.Part{Limit: all, CutOff: rule.Global}
	a.Guard = limiter.GuardOff
	switch {
	case rule.Shares:
		units := int64(0)
		if (req.Op == limiter.OpTake || req.Op == limiter.OpCharge) && !req.Again {
			units = a.Weight
		}
		p.Whole, a.HighWater = all.Count, s.opt.Regions.HighWater(a.SpanOf, all)
		if p.Limit, a.NotAfter = s.opt.Regions.Share(a.SpanOf, a.Key, all, units); !takes {
			a.NotAfter = 0
		}
	case rule.Rule.CutOff == nil || *rule.Rule.CutOff == rules.CutOffShare:
		together := false
		if p.Limit, together = s.opt.Regions.Part(a.Key, all); together {
			a.Guard = limiter.GuardShare
		}
		p.Whole = all.Count
	default:
		p.Shut = *rule.Rule.CutOff == rules.CutOffClosed && a.Weight > 0 && takes
	}
	if a.Spare > 0 {
		a.Spare = p.Limit.Spare(cmp.Or(rule.ElasticPercent, rule.SoftPercent))
	}
	if a.Limit, a.SpanOf = p.Limit.Widen(a.Spare), 0; p.Shut {
		a.Limit.Count, a.Limit.Burst = 0, 0
	}
	p.Asked = a
	return p
}

// whole is the limit of the rule that an ask is about.
func whole(a *limiter.Ask) limiter.Limit { return a.Limit.Widen(-a.Spare) }

// finish adds to an answer how the region changed the asks of the request. A request that a part never admits may be
// admitted when this region has a larger part, or is connected again.
func (s *Store) finish(ctx context.Context, req *limiter.Request, parts []*limiter.Part, res *limiter.Result,
	err error) error {
	if res.Parts, res.Rest = parts, nil; err != nil {
		return s.failed(ctx, req, res, err)
	}
	for i, p := range parts {
		if p == nil {
			continue
		}
		all, d := whole(&req.Asks[i]), &res.Limits[i]
		if p.Limit != all && !d.Allowed && d.RetryAfter == limiter.Never && req.Asks[i].Weight <= all.Capacity() {
			d.RetryAfter = s.opt.Regions.ShareInterval().Milliseconds()
		}
	}
	return nil
}

// failed adds to an error which buckets have a home. If the home is another region, the limits with another home are
// still decided, so that the loss of that region does not open or close them too. The error is the error of the
// request, or says that these limits met an overloaded store.
func (s *Store) failed(ctx context.Context, req *limiter.Request, res *limiter.Result, err error) error {
	elsewhere := false
	for i := range req.Asks {
		home := s.opt.Regions.Home(req.Asks[i].Key)
		if home == "" {
			continue
		}
		if res.Parts == nil {
			res.Parts = make([]*limiter.Part, len(req.Asks))
		}
		p := &limiter.Part{Asked: req.Asks[i], Limit: whole(&req.Asks[i]), Holders: int64(s.opt.Regions.Regions()),
			Elsewhere: home != s.opt.Self}
		res.Parts[i], elsewhere = p, elsewhere || p.Elsewhere
	}
	if !elsewhere || req.Op != limiter.OpTake && req.Op != limiter.OpPeek ||
		limiter.CauseOf(err) == limiter.CauseOverload {
		return err
	}
	rest, places := restOf(req, res.Parts)
	if len(places) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.Timeout) // the caller's time may be over
	defer cancel()
	if rest.Err = s.Do(ctx, &rest.Request, &rest.Result); rest.Err != nil {
		if limiter.CauseOf(rest.Err) == limiter.CauseOverload {
			return rest.Err
		}
		return err
	}
	said := make([]limiter.Decision, len(req.Asks))
	for n, at := range places {
		said[at] = rest.Result.Limits[n]
	}
	rest.Result.Limits, res.Rest = said, rest
	return err
}

// restOf returns the call for the asks of a request that failed which are not at home in another region, and their
// places. If the other asks deny anyway, the call only looks.
func restOf(req *limiter.Request, parts []*limiter.Part) (rest *limiter.Call, places []int) {
	rest = &limiter.Call{Request: limiter.Request{Op: req.Op, ID: req.ID, Keep: req.Keep, Impatient: req.Impatient,
		Again: true}}
	for i := range req.Asks[:req.Partly] {
		switch a := &req.Asks[i]; {
		case parts[i] == nil || !parts[i].Elsewhere:
			rest.Request.Asks, places = append(rest.Request.Asks, *a), append(places, i)
		case a.Closed:
			rest.Request.Op = limiter.OpPeek
		}
	}
	if rest.Request.ID == "" && rest.Request.Op == limiter.OpTake {
		rest.Request.ID = rand.Text() // it may have to be given back
	}
	return rest, places
}

// TimeFor returns the time for a request that goes to another region, 0 for any other.
func (s *Store) TimeFor(asks []limiter.Ask) time.Duration {
	for i := range asks {
		if home := s.Home(asks[i].Key); home != "" && home != s.opt.Self {
			return s.opt.Regions.Timeout()
		}
	}
	return 0
}

// Home returns the region that has a bucket, which may be this one; "" for a bucket that each region has.
func (s *Store) Home(key limiter.Key) string { return s.opt.Regions.Home(key) }

// Spent returns what each region has spent in a bucket that spans regions, by name: this one, and each other one as far
// as it has arrived here. It serves people. It returns nil if the store does not answer.
func (s *Store) Spent(ctx context.Context, key limiter.Key, l limiter.Limit) []limiter.RegionUnits {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	spent, err := s.opt.Spent.Spent(ctx, key)
	if err != nil {
		return nil
	}
	out := []limiter.RegionUnits{{Region: s.opt.Self, Units: spent.Own.Counting(l, spent.Now)}}
	for i := range spent.Received {
		h := &spent.Received[i]
		out = append(out, limiter.RegionUnits{Region: h.Region, Units: h.Sums.Counting(l, spent.Now)})
	}
	slices.SortFunc(out, func(a, b limiter.RegionUnits) int { return cmp.Compare(a.Region, b.Region) })
	return out
}
