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

// Denial is one request that a limit denied, or would have denied. Everyone who can
// read rules may see it: its creator has left out values that look like
// credentials.
type Denial struct {
	// ID is unique.
	ID string `json:"id"`
	// At is the time of the decision, ms since the epoch.
	At int64 `json:"at"`
	// Node made the decision.
	Node string `json:"node"`
	// Rule is the rule's name, Key the bucket's display name, Mode enforce,
	// shadow or candidate.
	Rule string `json:"rule"`
	Key  string `json:"key"`
	Mode string `json:"mode"`
	// Bucket is the name by which the bucket can be found (rules.BucketName), "" if
	// the caller sent the limit.
	Bucket string `json:"bucket,omitempty"`
	// Status is the status for the client: 200 for a limit on trial.
	Status int `json:"status"`
	// The figures of the limit. Times are in ms; RetryAfter is -1 for never.
	Limit      int64  `json:"limit"`
	Weight     int64  `json:"weight"`
	RetryAfter int64  `json:"retry_after"`
	Degraded   string `json:"degraded,omitempty"`
	// Shed is the pool that had no room, "" if the limit itself denies. Banned: the key has a ban.
	Shed   string `json:"shed,omitempty"`
	Banned bool   `json:"banned,omitempty"`
	// The request, as far as it may be shown.
	Method     string            `json:"method,omitempty"`
	Route      string            `json:"route,omitempty"`
	Host       string            `json:"host,omitempty"`
	IP         string            `json:"ip,omitempty"`
	User       string            `json:"user,omitempty"`
	Tier       string            `json:"tier,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Time is the time of the decision.
func (d *Denial) Time() time.Time { return time.UnixMilli(d.At) }

// Filter selects denials. Zero fields match everything.
type Filter struct {
	// Rule and Mode must be equal; Key and Route must be contained, and with
	// WholeKey Key must be equal.
	Rule, Mode, Key, Route string
	WholeKey               bool
	// From and To bound the time; To is excluded.
	From, To time.Time
}

func (f *Filter) match(d *Denial) bool {
	at := d.Time()
	return (f.Rule == "" || d.Rule == f.Rule) && (f.Mode == "" || d.Mode == f.Mode) &&
		(d.Key == f.Key || !f.WholeKey && strings.Contains(d.Key, f.Key)) && strings.Contains(d.Route, f.Route) &&
		(f.From.IsZero() || !at.Before(f.From)) && (f.To.IsZero() || at.Before(f.To))
}

// Denials returns up to n sampled denials that match, newest first, at most a second
// old. Callers must not change them. With an *OwnError they are those of this node
// only.
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

// kept reads every denial on the board, newest first.
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
		seen[d.ID] = true // a post whose answer was lost is there twice
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b Denial) int { return cmp.Compare(b.At, a.At) })
	return all, err
}

// Denial finds a sampled denial that is still kept. It reads the board again,
// because the link to a denial may come from another node.
func (r *Reader) Denial(ctx context.Context, id string) (Denial, bool, error) {
	all, err := r.kept(ctx)
	i := slices.IndexFunc(all, func(d Denial) bool { return d.ID == id })
	if i < 0 {
		return Denial{}, false, err
	}
	return all[i], true, nil
}
