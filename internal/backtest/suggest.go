package backtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/match"
	"sluice/rules/quantity"
)

// Bounds of suggestions.
const (
	// MaxWindows is the largest number of windows at once.
	MaxWindows = 8
	// MaxHeadroom is the largest headroom factor; the least is 1.
	MaxHeadroom = 100
	// maxPeaks bounds the keys whose peaks are kept for each window unless SuggestOptions say otherwise.
	maxPeaks = 1_000_000
)

// SuggestOptions configure Suggest. Log, Rules, Rule and Windows are required.
type SuggestOptions struct {
	Span
	Rules *match.Set
	// Rule is the name of the rule that says which requests count, by which key and with which weight.
	Rule string
	// Windows are 1 to MaxWindows windows of 1 ms to limiter.MaxWindow.
	Windows []time.Duration
	// Headroom is the factor between a peak and the suggested limit, 1 to MaxHeadroom.
	Headroom float64
	// MaxKeys bounds the keys that are counted in each window; 0 means a million, which take about 200 MB.
	MaxKeys int
}

// Suggestions are limits for one rule by the peaks of its keys.
type Suggestions struct {
	Rule     string  `json:"rule"`
	From     int64   `json:"from"`
	Until    int64   `json:"until"`
	Events   int64   `json:"events"`
	Cut      bool    `json:"cut"`
	Headroom float64 `json:"headroom"`
	// Requests and Keys are the numbers that the rule counts, scaled by the sampling of the log.
	Requests float64            `json:"requests"`
	Keys     float64            `json:"keys"`
	Windows  []WindowSuggestion `json:"windows"`
	// Left counts the events that could not be counted.
	Left   []Left    `json:"not_counted"`
	Scaled Scaled    `json:"scaled"`
	Log    LogReport `json:"log"`
}

// WindowSuggestion contains the suggestions for one window length. Windows are aligned to the clock, as in
// fixed_window.
type WindowSuggestion struct {
	WindowMS int64        `json:"window_ms"`
	Limits   []Suggestion `json:"limits"`
}

// Suggestion is one limit: the peak in a window of the given percentage of keys is Peak or less, and Limit is that
// times the headroom. A limit of Limit would have denied Denied percent of the requests of the counted keys, of
// DeniedKeys keys.
type Suggestion struct {
	Percentile float64 `json:"percentile"`
	Peak       int64   `json:"peak"`
	Limit      int64   `json:"limit"`
	Denied     float64 `json:"denied_percent"`
	DeniedKeys float64 `json:"denied_keys"`
}

// percentiles of the peaks of keys; 100 is the most.
var percentiles = []float64{50, 95, 99, 99.9, 100}

// UnknownRuleError means that the rules have no such rule.
type UnknownRuleError struct{ Rule string }

// Error implements error.
func (e *UnknownRuleError) Error() string {
	return fmt.Sprintf("the rules have no active rule %q", e.Rule)
}

// counted are the units of one key in one window of the clock, and its peak.
type counted struct {
	from, units, peak int64
	times             float64 // how many keys it stands for: as few as any of its requests
	requests          float64 // in this window, as what they stand for
}

// window collects the counts of one window.
type window struct {
	ms    int64
	keys  map[limiter.Key]*counted
	ended map[int64]ended // by units
	most  int             // keys
	lost  int64           // requests of further keys
	// requests is the number of requests of the counted keys, scaled by the sampling of the log.
	requests float64
}

// ended are the windows of keys that had the same number of units.
type ended struct{ requests float64 }

// Suggest counts the requests of a rule by key and window and suggests limits. The memory grows with the number of
// keys, which is bounded.
func Suggest(ctx context.Context, opt SuggestOptions) (*Suggestions, error) {
	if opt.Headroom < 1 || opt.Headroom > MaxHeadroom || math.IsNaN(opt.Headroom) {
		return nil, fmt.Errorf("the headroom must be between 1 and %d, not %g", MaxHeadroom, opt.Headroom)
	}
	if len(opt.Windows) == 0 || len(opt.Windows) > MaxWindows {
		return nil, fmt.Errorf("there must be 1 to %d windows, not %d", MaxWindows, len(opt.Windows))
	}
	rule := opt.Rules.Named(opt.Rule)
	if rule == nil {
		return nil, &UnknownRuleError{opt.Rule}
	}
	s := &suggesting{opt: opt, rule: rule, needs: needsOf(opt.Rules, rule), left: map[string]int64{}}
	for _, w := range opt.Windows {
		if w < time.Millisecond || w.Milliseconds() > limiter.MaxWindow {
			return nil, fmt.Errorf("a window must be between 1ms and %s, not %s",
				time.Duration(limiter.MaxWindow)*time.Millisecond, w)
		}
		s.windows = append(s.windows, &window{ms: w.Milliseconds(), keys: map[limiter.Key]*counted{},
			ended: map[int64]ended{}, most: cmp.Or(opt.MaxKeys, maxPeaks)})
	}
	cut, err := opt.read(ctx, func(e *Entry) error { return s.event(ctx, e) })
	if err != nil {
		return nil, err
	}
	s.out.Cut = cut
	return s.end(), nil
}

type suggesting struct {
	opt     SuggestOptions
	rule    *match.Compiled
	needs   needs
	windows []*window
	matches []match.Match
	out     Suggestions
	left    map[string]int64
	absent  factSet // that the rule needs and the log leaves out
	q       decide.Question
}

// event counts one event.
func (s *suggesting) event(ctx context.Context, e *Entry) error {
	from := e.Event
	s.out.Events++
	if s.out.From == 0 {
		s.out.From = e.TS
	}
	s.out.Until = e.TS
	if from.Op != "check" && from.Op != "charge" || from.Facts == nil {
		return nil
	}
	if from.Rate < 100 && !from.Drawn {
		s.left[leftNotDrawn]++
		return nil
	}
	if err := question(from, &s.q); err != nil {
		s.left[err.Error()]++
		return nil
	}
	if lacks := omitted(from) & s.needs.any; lacks != 0 {
		s.absent |= lacks
		s.left[partAbsent]++
	}
	var err error
	s.matches, err = s.opt.Rules.MatchContext(ctx, &s.q.Descriptor, s.q.Weight, time.UnixMilli(e.TS), s.matches[:0])
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.matches, func(m match.Match) bool { return m.Rule == s.rule })
	hashed, _ := concealed(from.Facts)
	if hashed&s.needs.values & ^s.needs.scope != 0 {
		s.left[partHashed]++
		return nil
	}
	if i < 0 {
		return nil
	}
	times := 1.0
	if from.Rate < 100 {
		if s.needs.scope&entity(from.Facts) == 0 {
			s.left[partShared]++
			return nil
		}
		times = 100 / from.Rate
		s.out.Scaled.add(from.Rate)
	}
	m := &s.matches[i]
	s.out.Requests += times
	for _, w := range s.windows {
		w.add(e.TS, m.Key, m.Weight, times)
	}
	return nil
}

// add adds one request.
func (w *window) add(ts int64, key limiter.Key, units int64, times float64) {
	c := w.keys[key]
	if c == nil {
		if len(w.keys) >= w.most {
			w.lost++
			return
		}
		c = &counted{times: times}
		w.keys[limiter.Key(strings.Clone(string(key)))] = c
	}
	if from := ts - ts%w.ms; from != c.from {
		w.endWindow(c)
		c.from = from
	}
	// Who is drawn at one rate is drawn at every higher one. So the highest rate says how many keys this one stands for.
	c.times = min(c.times, times)
	c.units = min(c.units+units, limiter.MaxExact)
	c.requests += times
	w.requests += times
	c.peak = max(c.peak, c.units)
}

// endWindow remembers the counts of a window of a key.
func (w *window) endWindow(c *counted) {
	if c.requests > 0 {
		at := w.ended[c.units]
		at.requests += c.requests
		w.ended[c.units] = at
	}
	c.units, c.requests = 0, 0
}

// end makes the suggestions.
func (s *suggesting) end() *Suggestions {
	out, log := &s.out, s.opt.Log
	out.Rule, out.Headroom = s.opt.Rule, s.opt.Headroom
	out.Log = LogReport{Lines: log.Lines, Corrupt: log.Corrupt, Late: log.Late, Problems: log.Problems}
	out.Left = []Left{}
	if lost := s.windows[0].lost; lost > 0 {
		s.left[leftKeys] = lost
	}
	for reason, n := range s.left {
		l := Left{Reason: reason, Events: n}
		switch reason {
		case partHashed, partShared:
			l.Rule, l.Facts = s.opt.Rule, s.needs.values.String()
		case partAbsent:
			l.Rule, l.Facts = s.opt.Rule, s.absent.String()
		}
		l.Text = l.text()
		out.Left = append(out.Left, l)
	}
	slices.SortFunc(out.Left, func(a, b Left) int { return order(a.Reason, b.Reason) })
	out.Windows = []WindowSuggestion{}
	for i, w := range s.windows {
		ws, keys := w.suggest(s.opt.Headroom)
		if i == 0 {
			out.Keys = keys
		}
		out.Windows = append(out.Windows, ws)
	}
	return out
}

// rounding is more, as a part of a figure, than floating point adds to it: 1.1 times 100 is 110 and not more.
const rounding = 1e-12

// withHeadroom is a peak times the headroom, rounded up, at most limiter.MaxExact.
func withHeadroom(peak int64, headroom float64) int64 {
	limit := float64(peak) * headroom
	return int64(min(max(float64(peak), math.Ceil(limit-rounding*limit)), float64(limiter.MaxExact)))
}

// suggest makes the suggestions of one window and returns how many keys there were.
func (w *window) suggest(headroom float64) (WindowSuggestion, float64) {
	type one struct {
		peak  int64
		times float64
	}
	var peaks []one
	keys := 0.0
	for _, c := range w.keys {
		w.endWindow(c)
		peaks = append(peaks, one{c.peak, c.times})
		keys += c.times
	}
	slices.SortFunc(peaks, func(a, b one) int { return order(a.peak, b.peak) })
	out := WindowSuggestion{WindowMS: w.ms, Limits: []Suggestion{}}
	for _, p := range percentiles {
		if len(peaks) == 0 {
			break
		}
		// The nearest rank: the least peak such that p percent of the keys have it or less.
		need, sum, peak := p*keys, 0.0, peaks[len(peaks)-1].peak
		for _, o := range peaks {
			if sum += o.times; sum*100 >= need-rounding*need {
				peak = o.peak
				break
			}
		}
		s := Suggestion{Percentile: p, Peak: peak,
			Limit: withHeadroom(peak, headroom)}
		for units, e := range w.ended {
			if units > s.Limit {
				// The units above the limit, as a part of the requests of these windows.
				s.Denied += e.requests * float64(units-s.Limit) / float64(units)
			}
		}
		if w.requests > 0 {
			s.Denied = s.Denied / w.requests * 100
		}
		for _, o := range peaks {
			if o.peak > s.Limit {
				s.DeniedKeys += o.times
			}
		}
		out.Limits = append(out.Limits, s)
	}
	return out, keys
}

// Times returns the suggestions for a fleet, of which the log has one part in factor: peaks and limits grow by it.
func (s *Suggestions) Times(factor float64) *Suggestions {
	out := *s
	out.Windows = slices.Clone(s.Windows)
	for i := range out.Windows {
		w := &out.Windows[i]
		w.Limits = slices.Clone(w.Limits)
		for k := range w.Limits {
			l := &w.Limits[k]
			l.Peak, l.Limit = withHeadroom(l.Peak, factor), withHeadroom(l.Limit, factor)
		}
	}
	return &out
}

// String writes the suggestions for people.
func (s *Suggestions) String() string {
	var b strings.Builder
	day := func(ts int64) string { return time.UnixMilli(ts).UTC().Format("2006-01-02 15:04:05") }
	if s.Events == 0 {
		return s.Rule + ": the log has no events in this range.\n"
	}
	fmt.Fprintf(&b, "%s, %s to %s UTC: %s requests of %s keys\n", s.Rule, day(s.From), day(s.Until),
		quantity.About(s.Requests), quantity.About(s.Keys))
	if s.Cut {
		b.WriteString("The log goes on: only its first events were counted.\n")
	}
	if s.Scaled.Checks > 0 {
		b.WriteString(s.Scaled.String() + "\n")
	}
	for _, w := range s.Windows {
		fmt.Fprintf(&b, "\nin a window of %s, with a headroom of %g\n%12s %14s %14s  %s\n",
			quantity.Exactly(w.WindowMS), s.Headroom, "KEYS BELOW", "PEAK", "LIMIT", "WOULD HAVE DENIED")
		for _, l := range w.Limits {
			fmt.Fprintf(&b, "%10g%% %14s %14s  %s of the requests, of %s keys\n", l.Percentile, quantity.Amount(l.Peak),
				quantity.Amount(l.Limit), quantity.Percent(l.Denied), quantity.About(l.DeniedKeys))
		}
	}
	r := Report{Left: s.Left, Log: s.Log}
	r.writeDoubts(&b)
	return b.String()
}
