package webtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/internal/history"
	"sluice/internal/records"
	"sluice/rules"
)

// Stats has canned figures of the last 90 days, and marks. It is safe for concurrent use.
type Stats struct {
	mu sync.Mutex
	// Err is what every call fails with, Partial what answers say is missing. Quiet has no traffic. Since is when
	// figures began; nothing is known before.
	Err, Partial error
	Quiet        bool
	Since        time.Time
	// Last is added to the last known point of every rule, Keys are the rows by key. Those without a Line get one.
	Last history.Figures
	Keys []history.Row
	// Also is the name of one more route and tenant, unless it is "".
	Also   string
	Marked []history.Mark

	rules *Rules
	now   func() time.Time
}

// Change changes the figures. It is safe while pages are served.
func (f *Stats) Change(how func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

func newStats(list *Rules, now func() time.Time) *Stats {
	return &Stats{
		rules: list, now: now, Since: Now.Add(-90 * history.Day),
		Keys: []history.Row{
			{Key: "user:42", Allowed: 90_000, Denied: 1183}, {Key: "user:acme-batch", Allowed: 45_000, Denied: 640, Error: 10},
			{Key: "user:90133", Allowed: 30_000, Denied: 221, Error: 20},
			{Key: "user:sha256:1f4a90c2b7de", Allowed: 22_500, Denied: 87, Error: 30},
			{Key: "user:7", Allowed: 18_000, Denied: 12, Error: 40},
		},
		Marked: []history.Mark{
			{At: Now.Add(-26 * time.Hour), Kind: history.MarkChange, Text: "version 3: limit 120 to 100",
				Rule: "charges-per-user", RuleID: 1, Version: 3, Who: "edda", Why: "The card processor asked for it."},
			{At: Now.Add(-50 * time.Minute), Kind: history.MarkBreaker,
				Text: "breaker of 10.0.0.9:6379 opened: connection refused (2 nodes)",
				Node: "10.0.0.1:8080", Incident: true, Until: Now.Add(-48*time.Minute - 56*time.Second)},
			{At: Now.Add(-48*time.Minute - 56*time.Second), Kind: history.MarkBreaker, Text: "breaker of 10.0.0.9:6379 closed",
				Node: "10.0.0.1:8080"},
			{At: Now.Add(-20 * time.Minute), Kind: history.MarkNode, Text: "node 10.0.0.2:8080 started", Node: "10.0.0.2:8080"},
		},
	}
}

// Stats implements history.Source.
func (f *Stats) Stats(_ context.Context, q history.Query) (history.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := q.Validate(); err != nil {
		return history.Result{}, err
	}
	if f.Err != nil {
		return history.Result{}, f.Err
	}
	from, to := q.From.Truncate(q.Step), q.To.Add(q.Step-1).Truncate(q.Step)
	out := history.Result{From: from, To: to, Step: q.Step, CompleteUntil: f.now().Add(-time.Minute).Truncate(q.Step),
		Partial: f.Partial}
	if q.By != "" {
		width := time.Minute
		if q.By != history.ByRule && q.By != history.ByNode {
			width = time.Hour
		}
		out.TopFrom, out.TopTo = q.From.Truncate(width), q.To.Add(width-1).Truncate(width)
		out.LineStep = width
	}
	names := []string{q.Rule}
	if q.Series && q.Rule == "" && q.By == history.ByRule {
		names = f.names()
	}
	for _, name := range names {
		out.Series = append(out.Series, history.Series{Rule: name, Points: f.points(name, from, to, q.Step)})
	}
	for i, key := range f.keys(q.By) {
		if f.Quiet {
			break
		}
		row := history.Row{Key: key, Peak: -1}
		switch q.By {
		case history.ByRule:
			s := history.Series{Points: f.points(key, from, to, q.Step)}
			sum, peak := s.Sum()
			row.Allowed, row.Denied, row.Peak = sum.Allowed, sum.Denied, peak
		case history.ByKey:
			row.Allowed, row.Denied, row.Error = f.Keys[i].Allowed, f.Keys[i].Denied, f.Keys[i].Error
		default:
			row.Allowed, row.Denied, row.Error = int64(90_000/(i+1)), int64(4_000/(i*i+1)), int64(10*i)
		}
		if q.By == history.ByKey && f.Keys[i].Line != nil {
			row.Line = f.Keys[i].Line
			out.Top = append(out.Top, row)
			continue
		}
		for n := range 24 {
			row.Line = append(row.Line, row.Allowed/24+int64((n*7+i*3)%11)*row.Allowed/240)
		}
		out.Top = append(out.Top, row)
	}
	return out, nil
}

func (f *Stats) names() []string {
	f.rules.mu.Lock()
	defer f.rules.mu.Unlock()
	var names []string
	for i := range min(len(f.rules.List), history.MaxSeries) {
		names = append(names, f.rules.List[i].Name)
	}
	return names
}

func (f *Stats) keys(by string) []string {
	switch by {
	case history.ByRule:
		return f.names()
	case history.ByKey:
		keys := make([]string, len(f.Keys))
		for i := range f.Keys {
			keys[i] = f.Keys[i].Key
		}
		return keys
	case history.ByRoute:
		return f.also("POST /v1/charges", "GET /v1/charges", "POST /login", "GET /v1/customers/{id}")
	case history.ByTenant:
		return f.also("acme", "globex", "initech")
	case history.ByNode:
		return []string{"10.0.0.1:8080", "10.0.0.2:8080"}
	}
	return nil
}

func (f *Stats) also(names ...string) []string {
	if f.Also != "" {
		names = append(names, f.Also)
	}
	return names
}

func (f *Stats) points(rule string, from, to time.Time, step time.Duration) []history.Point {
	var out []history.Point
	last := -1
	seed := float64(len(rule)%7 + 1)
	for at := from; at.Before(to); at = at.Add(step) {
		p := history.Point{At: at, Known: !at.Before(f.Since) && !at.After(f.now()), Peak: -1}
		if p.Known && !f.Quiet {
			x := float64(at.Unix()) / 3600
			wave := 1 + .6*math.Sin(x*math.Pi/12+seed) + .1*math.Sin(x*37)
			n := step.Seconds() * wave * 60 / seed
			p.Allowed, p.Denied = int64(n), int64(n*wave*wave/20)
			p.WouldDeny = int64(n / 80)
			p.Peak = int64(wave * 140 / seed)
			p.Use = 1 + min(999, int64(70*wave))
		}
		out = append(out, p)
		if p.Known {
			last = len(out) - 1
		}
	}
	if last >= 0 {
		out[last].Add(f.Last)
	}
	return out
}

// Marks implements history.MarkSource.
func (f *Stats) Marks(_ context.Context, rule string, from, to time.Time) ([]history.Mark, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return nil, fmt.Errorf("%w: %w", rules.ErrUnavailable, f.Err)
	}
	return slices.DeleteFunc(slices.Clone(f.Marked), func(m history.Mark) bool {
		return !m.Overlaps(from, to) || rule != "" && m.Rule != "" && m.Rule != rule
	}), nil
}

// sampleLogs are a log in files that has everything and one in Kafka that loses some.
func sampleLogs() map[string]records.Totals {
	return map[string]records.Totals{
		"file": {Produced: 120_400, Delivered: 120_388, Buffered: 12, Dropped: map[string]int64{"ring_full": 0}},
		"kafka": {Produced: 120_400, Delivered: 118_000, Buffered: 1_900, Doubtful: 120, Age: 40 * time.Second,
			Dropped: map[string]int64{"client_full": 250, "too_old": 130}},
	}
}
