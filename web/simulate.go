package web

import (
	"strconv"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/web/view"
)

// The shapes of traffic that the preview of a limit is tried on.
const (
	shapeSteady   = "steady"
	shapeBurst    = "burst"
	shapeBoundary = "boundary"
)

// Bounds of a preview.
const (
	previewWindows  = 3
	previewRows     = 12
	previewRequests = 1500
	defaultLoad     = 150
)

// arrival is a number of requests that come one after the other within a span.
type arrival struct{ from, until, count int64 }

// arrivals is the traffic of a shape over previewWindows windows: load is in
// percent of the limit.
func arrivals(shape string, window, limit, load int64) []arrival {
	part := func(windows int64) int64 { return max(1, limit/100*load*windows+limit%100*load*windows/100) }
	per := part(1)
	switch shape {
	case shapeBurst:
		// All at once, then a quiet window, then all at once again.
		return []arrival{{window / 10, window/10 + window/20, per}, {2*window + window/10, 2*window + window/10 + window/20, per}}
	case shapeBoundary:
		// The last tenth of a window and the first of the next.
		return []arrival{{window - window/10, window, per}, {window, window + window/10, per}}
	}
	return []arrival{{0, previewWindows * window, part(previewWindows)}}
}

// simulate tries a limit on traffic of one client, with the arithmetic that
// decides real requests and a clock of its own. spare is what a throttle admits
// above the limit, which clients are not told. A limit with very many requests
// is drawn with several units a request. The name is the rule's, for headers.
func simulate(l limiter.Limit, spare int64, shape string, load, now int64, headers HeadersOf, name string) view.Preview {
	p := view.Preview{Shape: shape, Load: load, Window: l.Window, Limit: l.Capacity(), Rows: make([]view.Slot, previewRows), Span: previewWindows * l.Window}
	all := arrivals(shape, l.Window, l.Count, load)
	var total int64
	for _, a := range all {
		total += a.count
	}
	p.Unit = (total + previewRequests - 1) / previewRequests
	p.Slots = make([]view.Slot, slotsFor(total/p.Unit))
	s := simulation{limit: l.Widen(spare), preview: &p, start: startOf(l, now), weight: p.Unit, capacity: l.Capacity() + spare}
	for _, a := range all {
		n := max(1, a.count/p.Unit)
		for i := range n {
			s.request(a.from + ((a.until-a.from)*i+n-1)/n) // up, so that it is in the step that it begins
		}
	}
	if headers != nil {
		example, at := s.lastAllowed, s.allowedAt
		if s.denials > 0 {
			example, at = s.firstDenied, s.deniedAt
		}
		p.Denied = s.denials > 0
		for _, h := range headers(name, l, example.Within(spare), at) {
			p.Headers = append(p.Headers, view.HeaderLine{Name: h.Name, Value: h.Value})
		}
	}
	return p
}

// slotsFor is in how many steps so many requests are drawn: if possible as many
// in each, and several, so that steady traffic looks steady.
func slotsFor(requests int64) int64 {
	const fewest, most = 45, 150
	for n := int64(fewest); n <= most; n += previewWindows {
		if requests%n == 0 {
			return n
		}
	}
	return 60
}

// slotAt is the step in which an instant lies.
func slotAt(slots []view.Slot, at, span int64) *view.Slot {
	n := int64(len(slots))
	return &slots[min(at*n/span, n-1)] // the longest window times the most slots is below 2^48
}

// startOf is the beginning of a window at or before now, so that the boundary of
// a fixed window is where the picture has it.
func startOf(l limiter.Limit, now int64) int64 {
	d := (now - l.Anchor) % l.Window
	if d < 0 {
		d += l.Window
	}
	return now - d
}

// simulation is one bucket under way. Leases are held until they end by
// themselves, so that as many are asked for at a time as the load says.
type simulation struct {
	limit    limiter.Limit
	state    limiter.State
	preview  *view.Preview
	start    int64
	weight   int64
	capacity int64

	requests, denials   int64
	firstDenied         limiter.Decision
	lastAllowed         limiter.Decision
	deniedAt, allowedAt int64
}

// request puts one request to the bucket, at ms from the start.
func (s *simulation) request(at int64) {
	now := s.start + at
	id := ""
	if s.limit.Algorithm == limiter.Concurrency {
		id = strconv.FormatInt(s.requests, 10)
	}
	s.requests++
	var (
		changed [1]bool
		out     [1]limiter.Decision
		charged [1]limiter.Charged
	)
	asks := [1]limiter.Ask{{Limit: s.limit, Weight: min(s.weight, max(1, s.capacity))}}
	ok := limiter.Decide(limiter.OpTake, asks[:], id, []*limiter.State{&s.state}, now, changed[:], out[:], charged[:])
	p := s.preview
	slot, row := slotAt(p.Slots, at, p.Span), slotAt(p.Rows, at, p.Span)
	if !ok {
		slot.Denied += s.weight
		row.Denied += s.weight
		p.DeniedUnits += s.weight
		if s.denials == 0 {
			s.firstDenied, s.deniedAt = out[0], now
		}
		s.denials++
		return
	}
	slot.Allowed += s.weight
	row.Allowed += s.weight
	p.AllowedUnits += s.weight
	p.Delay = max(p.Delay, out[0].Delay)
	s.lastAllowed, s.allowedAt = out[0], now
}

// previewLimit is the limit that the preview tries, in the calendar period of
// now, and what a soft or elastic throttle lets through above it.
func previewLimit(r *rules.Rule, now time.Time) (l limiter.Limit, spare int64, err error) {
	if l, err = r.LimiterLimit(); err != nil {
		return l, 0, err
	}
	if set := alone(r, withoutSchedule); set != nil && set.Len() == 1 {
		l = set.At(0).OwnLimit(now)
	}
	switch {
	case r.Throttle == rules.ThrottleSoft && r.SoftPercent != nil:
		spare = l.Spare(*r.SoftPercent)
	case r.Throttle == rules.ThrottleElastic && r.ElasticPercent != nil:
		spare = l.Spare(*r.ElasticPercent)
	}
	return l, spare, nil
}

// withoutSchedule keeps a rule's limit the same all day.
func withoutSchedule(r *rules.Rule) { r.Schedule = nil }
