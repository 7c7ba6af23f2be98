package trouble

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// linesEvery is the shortest time between two lines that say that the same condition begins.
	linesEvery = 10 * time.Second
	// maxNoted is the largest number of subjects of all conditions. Further ones are not noted.
	maxNoted = 1000
)

// Trouble is a condition that lasts.
type Trouble struct {
	*Condition
	// Subject is what is concerned, such as a region; "" for the whole node. It is never text of a caller.
	Subject string
	Since   time.Time
	// Cause is the reason for people. It contains no address, no key and no password.
	Cause string
	// Numbers are figures about it, by their names in messages of alerts; nil for none. They are not changed.
	Numbers map[string]int64
}

// Registry knows what is wrong on a node. A nil Registry discards. It is safe for concurrent use.
type Registry struct {
	log    *slog.Logger
	now    func() time.Time
	follow func(t *Trouble, on bool)

	on    atomic.Int64 // how many are set, so that clearing costs nothing while all is well
	mu    sync.Mutex
	noted map[key]*noted
}

type key struct {
	condition *Condition
	subject   string
}

// noted is what is known of a condition and its subject.
type noted struct {
	Trouble
	on, logged bool // logged: the log contains its beginning, but not its end
	reason     string
	at         time.Time // of the last line about its beginning
}

// New creates the registry of a node. follow, if not nil, is called each time a condition is set, and when a condition
// ends. It must not call the registry.
func New(log *slog.Logger, now func() time.Time, follow func(t *Trouble, on bool)) *Registry {
	return &Registry{log: log, now: now, follow: follow, noted: map[key]*noted{}}
}

// Note sets a condition because of an error, or clears it if the error is nil. args go into the log line, but not
// into what others see.
func (r *Registry) Note(c *Condition, subject string, err error, args ...any) {
	switch {
	case r == nil:
	case err == nil:
		r.Clear(c, subject, args...)
	default:
		reason := ""
		if c.EachReason {
			reason = err.Error()
		}
		r.set(&Trouble{c, subject, r.now(), Words(err), nil}, reason, append(slices.Clip(args), "error", err))
	}
}

// Set sets a condition, which has lasted since t.Since unless it is set already.
func (r *Registry) Set(t Trouble, args ...any) {
	if r != nil {
		r.set(&t, t.Cause, append([]any{"because", t.Cause}, args...))
	}
}

func (r *Registry) set(t *Trouble, reason string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := t.Condition
	n := r.find(c, t.Subject)
	if n == nil {
		return
	}
	if !n.on {
		n.on, n.Since = true, t.Since
		r.on.Add(1)
	}
	n.Cause, n.Numbers = t.Cause, t.Numbers
	now := r.now()
	news := !n.logged || c.EachReason && reason != n.reason
	if c.Starts != "" && news && (n.at.IsZero() || now.Sub(n.at) >= linesEvery) {
		n.logged, n.at, n.reason = true, now, reason
		level := slog.LevelWarn
		if c.Severe {
			level = slog.LevelError
		}
		if c.Advice != "" {
			args = append(args, "advice", c.Advice)
		}
		r.line(level, c.Starts, c.Code, n, args)
	}
	if r.follow != nil {
		r.follow(&n.Trouble, true)
	}
}

// find returns what is noted of a condition and its subject, nil if there is no room.
func (r *Registry) find(c *Condition, subject string) *noted {
	k := key{c, subject}
	if r.noted[k] == nil {
		if len(r.noted) >= maxNoted {
			maps.DeleteFunc(r.noted, func(_ key, n *noted) bool { return !n.on })
		}
		if len(r.noted) < maxNoted {
			r.noted[k] = &noted{Trouble: Trouble{Condition: c, Subject: subject}}
		}
	}
	return r.noted[k]
}

// Clear ends a condition. It does nothing if the condition is not set.
func (r *Registry) Clear(c *Condition, subject string, args ...any) { r.end(c, subject, true, args) }

// Forget ends a condition without a log line: this node no longer notices whether it lasts.
func (r *Registry) Forget(c *Condition, subject string) { r.end(c, subject, false, nil) }

func (r *Registry) end(c *Condition, subject string, logs bool, args []any) {
	if r == nil || r.on.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.noted[key{c, subject}]
	if n == nil || !n.on {
		return
	}
	n.on = false
	r.on.Add(-1)
	if n.logged && logs {
		after := r.now().Sub(n.Since).Round(time.Millisecond)
		r.line(slog.LevelInfo, c.Ends, c.Code+"_ended", n, append([]any{"after", after.String()}, args...))
	}
	n.logged = false
	if r.follow != nil {
		r.follow(&n.Trouble, false)
	}
}

func (r *Registry) line(level slog.Level, words, event string, n *noted, args []any) {
	line := []any{"event", event}
	if n.Of != "" {
		line = append(line, n.Of, n.Subject)
	}
	r.log.Log(context.Background(), level, words, append(line, args...)...)
}

// On reports whether a condition is set.
func (r *Registry) On(c *Condition, subject string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.noted[key{c, subject}]
	return n != nil && n.on
}

// Current returns the conditions that are set, by code and subject.
func (r *Registry) Current() []Trouble {
	var out []Trouble
	if r == nil {
		return out
	}
	r.mu.Lock()
	for _, n := range r.noted {
		if n.on {
			out = append(out, n.Trouble)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(out, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject))
	})
	return out
}

// Codes returns the codes of the conditions that are set, each once and in order.
func (r *Registry) Codes() []string {
	out := []string{}
	for _, t := range r.Current() {
		if len(out) == 0 || out[len(out)-1] != t.Code {
			out = append(out, t.Code)
		}
	}
	return out
}

var metric = prometheus.NewDesc("sluice_trouble", "Subjects that have the trouble of a code on this node, 0 for none.",
	[]string{"code"}, nil)

// Describe implements prometheus.Collector.
func (r *Registry) Describe(to chan<- *prometheus.Desc) { to <- metric }

// Collect implements prometheus.Collector. It has one series for each declared condition.
func (r *Registry) Collect(to chan<- prometheus.Metric) {
	count := map[*Condition]int{}
	for _, t := range r.Current() {
		count[t.Condition]++
	}
	for _, c := range Declared() {
		to <- prometheus.MustNewConstMetric(metric, prometheus.GaugeValue, float64(count[c]), c.Code)
	}
}

var _ prometheus.Collector = (*Registry)(nil)
