package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Denial is one request that a limit denied, or would have denied. Everything in
// it may be shown to whoever may read rules: values that look like credentials
// are left out by whoever makes it.
type Denial struct {
	// ID is unique.
	ID string `json:"id"`
	// At is when, ms since the epoch.
	At int64 `json:"at"`
	// Node made the decision.
	Node string `json:"node"`
	// Rule is the rule's name, Key the bucket's display name, Mode enforce,
	// shadow or candidate.
	Rule string `json:"rule"`
	Key  string `json:"key"`
	Mode string `json:"mode"`
	// Bucket is the bucket's name by which it can be found again
	// (rules.BucketName), "" where the caller brought the limit.
	Bucket string `json:"bucket,omitempty"`
	// Status is what the gateway was told to answer: 200 for a limit on trial.
	Status int `json:"status"`
	// The limit's figures; times in ms, RetryAfter -1 for never.
	Limit      int64  `json:"limit"`
	Weight     int64  `json:"weight"`
	RetryAfter int64  `json:"retry_after"`
	Degraded   string `json:"degraded,omitempty"`
	// The request, as far as it may be shown.
	Method     string            `json:"method,omitempty"`
	Route      string            `json:"route,omitempty"`
	IP         string            `json:"ip,omitempty"`
	User       string            `json:"user,omitempty"`
	Tier       string            `json:"tier,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Time is when it was decided.
func (d *Denial) Time() time.Time { return time.UnixMilli(d.At) }

// KeyCount is how often a key was denied; a key that was denied seldom among
// many others may show up to the count of the least one too many.
type KeyCount struct {
	Key   string
	Count int64
}

// TopDenied gives up to n keys that a rule denied most in the current hour and
// the one before. With an *OwnError they are of this node alone.
func (r *Reader) TopDenied(ctx context.Context, rule string, n int) ([]KeyCount, error) {
	hour := r.now().Unix() / 3600
	read, err := r.tables(ctx, []string{keysTable(hour-1, rule), keysTable(hour, rule)})
	if err != nil && read == nil {
		return nil, fmt.Errorf("read the most denied keys of %s: %w", rule, err)
	}
	sum := map[string]int64{}
	for _, fields := range read {
		for _, text := range fields {
			var keys map[string]int64
			if json.Unmarshal([]byte(text), &keys) != nil {
				continue
			}
			for k, c := range keys {
				sum[k] += c
			}
		}
	}
	out := make([]KeyCount, 0, len(sum))
	for k, c := range sum {
		out = append(out, KeyCount{k, c})
	}
	slices.SortFunc(out, func(a, b KeyCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	return out[:min(n, len(out))], err
}

// Filter chooses denials. Zero fields choose everything.
type Filter struct {
	// Rule and Mode are exact; Key and Route are parts of the text, unless WholeKey
	// says that Key is all of it.
	Rule, Mode, Key, Route string
	WholeKey               bool
	// From and To bound the time, To excluded.
	From, To time.Time
}

func (f *Filter) match(d *Denial) bool {
	at := d.Time()
	return (f.Rule == "" || d.Rule == f.Rule) && (f.Mode == "" || d.Mode == f.Mode) &&
		(d.Key == f.Key || !f.WholeKey && strings.Contains(d.Key, f.Key)) && strings.Contains(d.Route, f.Route) &&
		(f.From.IsZero() || !at.Before(f.From)) && (f.To.IsZero() || at.Before(f.To))
}

// Denials gives up to n sampled denials that match, the newest first, as they
// were at most a second ago. What they hold is not to be changed. With an *OwnError
// they are of this node alone.
func (r *Reader) Denials(ctx context.Context, f Filter, n int) ([]Denial, error) {
	r.recentMu.Lock()
	defer r.recentMu.Unlock()
	now := r.now()
	if age := now.Sub(r.recentAsked); age < 0 || age >= fresh {
		r.recent, r.recentErr = r.kept(context.WithoutCancel(ctx)) // it is for others too
		r.recentAsked = now
	}
	var out []Denial
	for i := range r.recent {
		if len(out) < n && f.match(&r.recent[i]) {
			out = append(out, r.recent[i])
		}
	}
	return out, r.recentErr
}

// kept reads every denial that the board keeps, the newest first.
func (r *Reader) kept(ctx context.Context) ([]Denial, error) {
	var lines []string
	err := r.from(ctx, func(ctx context.Context, b Board) (err error) {
		lines, err = b.Recent(ctx, keptDenials)
		return err
	})
	if err != nil && lines == nil {
		return nil, fmt.Errorf("read recent denials: %w", err)
	}
	all := make([]Denial, 0, len(lines))
	seen := make(map[string]bool, len(lines))
	for _, line := range lines {
		var d Denial
		if json.Unmarshal([]byte(line), &d) != nil || seen[d.ID] {
			continue
		}
		seen[d.ID] = true // a posting whose answer was lost is there twice
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b Denial) int { return cmp.Compare(b.At, a.At) })
	return all, err
}

// Denial finds a sampled denial that is still kept. It asks anew: the link to a
// denial may come from another node.
func (r *Reader) Denial(ctx context.Context, id string) (Denial, bool, error) {
	all, err := r.kept(ctx)
	i := slices.IndexFunc(all, func(d Denial) bool { return d.ID == id })
	if i < 0 {
		return Denial{}, false, err
	}
	return all[i], true, nil
}
