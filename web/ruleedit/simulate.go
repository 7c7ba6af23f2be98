package ruleedit

import (
	"fmt"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/view"
)

// The shapes of traffic that a limit is tested with.
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

// arrival is a number of requests that are spread evenly over a time span.
type arrival struct{ from, until, count int64 }

// arrivals is the traffic of a shape over previewWindows windows: load is in
// percent of the limit.
func arrivals(shape string, window, limit, load int64) []arrival {
	part := func(windows int64) int64 { return max(1, limit/100*load*windows+limit%100*load*windows/100) }
	per := part(1)
	switch shape {
	case shapeBurst:
		// All at once, then a quiet window, then all at once again.
		return []arrival{{window / 10, window/10 + window/20, per},
			{2*window + window/10, 2*window + window/10 + window/20, per}}
	case shapeBoundary:
		// The last tenth of a window and the first tenth of the next.
		return []arrival{{window - window/10, window, per}, {window, window + window/10, per}}
	}
	return []arrival{{0, previewWindows * window, part(previewWindows)}}
}

// simulate tests a limit with the traffic of one client, with the code that decides real requests and a simulated
// clock. ban is the ban beside the limit, nil for none. spare is what a throttle allows over the limit, which is not in
// headers. With a very high limit each request uses several units. r is the rule, for headers.
func simulate(l limiter.Limit, ban *limiter.Limit, spare int64, shape string, load, now int64, headers HeadersOf,
	r *rules.Rule) Preview {
	p := Preview{Shape: shape, Load: load, Window: l.Window, Limit: l.Capacity(), Rows: make([]Slot, previewRows),
		Span: previewWindows * l.Window}
	all := arrivals(shape, l.Window, l.Count, load)
	var total int64
	for _, a := range all {
		total += a.count
	}
	p.Unit = (total + previewRequests - 1) / previewRequests
	p.Slots = make([]Slot, slotsFor(total/p.Unit))
	s := simulation{limit: coarse(l.Widen(spare), p.Unit), preview: &p, start: startOf(l, now), weight: p.Unit,
		capacity: l.Capacity() + spare}
	if d := r.Delay; d != nil && d.After != nil && d.StepMS > 0 {
		s.delay = d
	}
	if r.TarpitMS != nil {
		p.Tarpit = *r.TarpitMS
	}
	if ban != nil { // a simulated request stands for several
		s.ban = new(*ban)
		s.ban.Count = (ban.Count + p.Unit - 1) / p.Unit
	}
	for _, a := range all {
		n := max(1, a.count/p.Unit)
		for i := range n {
			s.request(a.from + ((a.until-a.from)*i+n-1)/n) // rounded up, so that the request is in the step that it starts
		}
	}
	if headers != nil {
		example, at := s.lastAllowed, s.allowedAt
		if s.denials > 0 {
			example, at = s.firstDenied, s.deniedAt
		}
		p.Denied = s.denials > 0
		example.Limit, example.Remaining = min(example.Limit, s.capacity), min(example.Remaining, s.capacity)
		if !example.Allowed && r.Denial != nil && r.Denial.Retry == rules.RetryNever {
			example.RetryAfter = limiter.Never
		}
		p.Headers = headers(r, l, example.Within(spare), at)
	}
	return p
}

// coarse is a limit for requests of unit units, which stand for several requests one after the other. If the burst is
// smaller than one of them, it is raised so far that nothing of the rate is lost between two, and the rate is at most
// what the real burst admits in each millisecond.
func coarse(l limiter.Limit, unit int64) limiter.Limit {
	capacity := l.Capacity()
	if capacity >= unit || capacity == 0 || l.Count == 0 {
		return l
	}
	l.Count, l.Burst = min(l.Count, capacity*l.Window), min(2*unit, l.MaxCapacity())
	return l
}

// slotsFor is the number of steps in the chart: if possible one that divides the requests evenly, so that steady
// traffic looks steady.
func slotsFor(requests int64) int64 {
	const fewest, most = 45, 150
	for n := int64(fewest); n <= most; n += previewWindows {
		if requests%n == 0 {
			return n
		}
	}
	return 60
}

// slotAt is the step that contains an instant.
func slotAt(slots []Slot, at, span int64) *Slot {
	n := int64(len(slots))
	return &slots[min(at*n/span, n-1)] // the longest window times the most slots is below 2^48
}

// startOf is the start of a window at or before now, so that window boundaries are where the chart draws them.
func startOf(l limiter.Limit, now int64) int64 {
	d := (now - l.Anchor) % l.Window
	if d < 0 {
		d += l.Window
	}
	return now - d
}

// simulation is the state of one simulated bucket. Slots of a concurrency limit are held until they expire, so that the
// load is the number of requests at a time.
type simulation struct {
	limit    limiter.Limit
	state    limiter.State
	ban      *limiter.Limit // nil for none
	banState limiter.State
	preview  *Preview
	start    int64
	weight   int64
	capacity int64
	delay    *rules.Delay // nil for none

	requests, denials   int64
	firstDenied         limiter.Decision
	lastAllowed         limiter.Decision
	deniedAt, allowedAt int64
}

// request simulates one request, at ms after the start.
func (s *simulation) request(at int64) {
	now := s.start + at
	id := ""
	if s.limit.Algorithm.Traits().Slots {
		id = view.Digits(s.requests)
	}
	s.requests++
	var (
		changed [2]bool
		out     [2]limiter.Decision
		charged [2]limiter.Charged
	)
	n := 1
	weight := min(s.weight, max(1, s.limit.Capacity()))
	asks := [2]limiter.Ask{{Limit: s.limit, Weight: weight}}
	if s.ban != nil {
		n, asks[1].Limit = 2, *s.ban
	}
	ok := limiter.Decide(limiter.OpTake, asks[:n], id, []*limiter.State{&s.state, &s.banState}, now, changed[:n], out[:n],
		charged[:n])
	p := s.preview
	if s.ban != nil {
		out[0] = out[0].WithBan(out[1])
	}
	if out[0].BanBegan {
		p.Bans++
	}
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
	slot.Allowed, slot.Denied = slot.Allowed+weight, slot.Denied+s.weight-weight
	row.Allowed, row.Denied = row.Allowed+weight, row.Denied+s.weight-weight
	p.AllowedUnits, p.DeniedUnits = p.AllowedUnits+weight, p.DeniedUnits+s.weight-weight
	if wait := s.wait(out[0]); wait > 0 {
		p.Waits, p.Delay = p.Waits+weight, max(p.Delay, wait)
	}
	s.lastAllowed, s.allowedAt = out[0], now
}

// wait is how long an admitted request has to wait, in ms: in a leaky queue, or for the delay of the rule.
func (s *simulation) wait(made limiter.Decision) int64 {
	if s.delay == nil {
		return made.Delay
	}
	made.Used = min(made.Used, s.capacity) // the limit of a simulation may be larger, see coarse
	return s.delay.Of(&s.limit, &made)
}

// previewLimit is the limit to simulate, in the current calendar period, and what a soft or elastic throttle allows
// over it.
func previewLimit(r *rules.Rule, now time.Time) (l limiter.Limit, spare int64, err error) {
	if l, err = r.LimiterLimit(); err != nil {
		return l, 0, err
	}
	if set := compileAlone(match.Options{}, r, withoutSchedule); set != nil && set.Len() == 1 {
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

// withoutSchedule removes a rule's schedule.
func withoutSchedule(r *rules.Rule) { r.Schedule = nil }

// Preview is the result of a simulation.
type Preview struct {
	Shape string
	// Load is in percent of the limit, Window and Span are in ms, Unit is how many units each simulated request uses.
	Load, Window, Span, Unit, Limit int64
	// Slots are the steps of the chart, Rows those of the table.
	Slots, Rows               []Slot
	AllowedUnits, DeniedUnits int64
	// Bans is how many bans begin.
	Bans int64
	// Waits is how many units wait before they start, in a leaky queue or for the delay of the rule, and Delay the
	// longest wait. Tarpit is how long a denial waits. Both are in ms.
	Waits, Delay, Tarpit int64
	// Headers are those of the first denied answer, or of the last answer if Denied is false.
	Headers []Header
	Denied  bool
}

// Slot is one step of time in a Preview, in units.
type Slot struct{ Allowed, Denied int64 }

// Header is one header of an answer.
type Header struct{ Name, Value string }

const (
	plotWidth  = 360
	plotHeight = 110
)

// tallest is the most units of a slot, at least 1.
func (p *Preview) tallest() int64 {
	top := int64(1)
	for _, s := range p.Slots {
		top = max(top, s.Allowed+s.Denied)
	}
	return top
}

// bars draws the allowed requests, or the denied ones on top of them.
func (p *Preview) bars(denied bool) string {
	top, width := float64(p.tallest()), float64(plotWidth)/float64(max(1, len(p.Slots)))
	var b strings.Builder
	for i, s := range p.Slots {
		value, base := s.Allowed, int64(0)
		if denied {
			value, base = s.Denied, s.Allowed
		}
		if value == 0 {
			continue
		}
		height, bottom := float64(value)/top*(plotHeight-4), plotHeight-float64(base)/top*(plotHeight-4)
		fmt.Fprintf(&b, "M%s %sv-%sh%sv%sz", view.Tenths(float64(i)*width), view.Tenths(bottom), view.Tenths(height),
			view.Tenths(width*.9), view.Tenths(height))
	}
	return b.String()
}

// borders are the lines between windows.
func (p *Preview) borders() string {
	var b strings.Builder
	for at := p.Window; at < p.Span; at += p.Window {
		fmt.Fprintf(&b, "M%s 0v%s", view.Tenths(float64(at)/float64(p.Span)*plotWidth), view.Digits(plotHeight))
	}
	return b.String()
}

// previewRow is a row of the table of a preview.
type previewRow struct {
	From            string
	Allowed, Denied int64
}

// rows are the rows of the table.
func (p *Preview) rows() []previewRow {
	rows := make([]previewRow, len(p.Rows))
	for i, s := range p.Rows {
		rows[i] = previewRow{From: span(p.Span * int64(i) / int64(len(p.Rows))), Allowed: s.Allowed, Denied: s.Denied}
	}
	return rows
}

// span writes ms.
func span(ms int64) string { return view.Length(time.Duration(ms) * time.Millisecond) }

// label describes the chart.
func (p *Preview) label() string {
	return fmt.Sprintf("Of %s units over %s, %s are allowed and %s denied.", view.Count(p.AllowedUnits+p.DeniedUnits),
		span(p.Span), view.Count(p.AllowedUnits), view.Count(p.DeniedUnits))
}

// beside says what else becomes of the requests: bans and waits.
func (p *Preview) beside() (out []string) {
	if p.Bans > 0 {
		out = append(out, view.Plural(p.Bans, "ban")+".")
	}
	if p.Waits > 0 {
		out = append(out, fmt.Sprintf("Of the allowed, %s wait, up to %s each.", view.Count(p.Waits), span(p.Delay)))
	}
	if p.Tarpit > 0 && p.DeniedUnits > 0 {
		out = append(out, fmt.Sprintf("Each denial waits %s.", span(p.Tarpit)))
	}
	return out
}

// headerText is the headers as in HTTP.
func (p *Preview) headerText() string {
	var b strings.Builder
	for _, h := range p.Headers {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}
	return b.String()
}
