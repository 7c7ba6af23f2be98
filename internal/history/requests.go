package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one sampled request. Everyone who can read rules may see it: its creator has left out values that look
// like credentials. Samples are examples for people; no figure is computed from them.
type Request struct {
	// ID is unique.
	ID string `json:"id"`
	// At is the time of the decision, ms since the epoch.
	At int64 `json:"at"`
	// Node made the decision.
	Node string `json:"node"`
	// Allowed: no limit denied the request, or would have denied it. The limit below is then the strictest one.
	// Otherwise it is the limit that denied.
	Allowed bool `json:"allowed,omitempty"`
	// Rule is the rule's name, "" if no rule applied. Key is the bucket's display name, Mode enforce, shadow or
	// candidate.
	Rule string `json:"rule"`
	Key  string `json:"key"`
	Mode string `json:"mode"`
	// Also are the other rules that counted the request.
	Also []string `json:"also,omitempty"`
	// Bucket is the name by which the bucket can be found (match.BucketName), "" if
	// the caller sent the limit.
	Bucket string `json:"bucket,omitempty"`
	// Status is the status for the client: 200 for a limit on trial.
	Status int `json:"status"`
	// The figures of the limit. Times are in ms; RetryAfter is -1 for never. Remaining is set for allowed requests
	// only.
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining,omitempty"`
	Weight     int64  `json:"weight"`
	RetryAfter int64  `json:"retry_after"`
	Degraded   string `json:"degraded,omitempty"`
	// Shed is the pool that had no room, "" if the limit itself denies. Banned: the key has a ban.
	Shed   string `json:"shed,omitempty"`
	Banned bool   `json:"banned,omitempty"`
	// Overloaded: the counter store had no turn for the request, so that no limit was checked.
	Overloaded bool `json:"overloaded,omitempty"`
	// The request, as far as it may be shown.
	Method     string            `json:"method,omitempty"`
	Route      string            `json:"route,omitempty"`
	Host       string            `json:"host,omitempty"`
	IP         string            `json:"ip,omitempty"`
	User       string            `json:"user,omitempty"`
	Tier       string            `json:"tier,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// The outcomes of requests. A degraded request, decided by a fail mode, is allowed or denied as well.
const (
	Allowed   = "allowed"
	Denied    = "denied"
	WouldDeny = "would_deny"
	Degraded  = "degraded"
)

// enforced is rules.ModeEnforce.
const enforced = "enforce"

// Time is the time of the decision.
func (r *Request) Time() time.Time { return time.UnixMilli(r.At) }

// Outcome is Allowed, Denied or WouldDeny.
func (r *Request) Outcome() string {
	switch {
	case r.Allowed:
		return Allowed
	case r.Mode == enforced:
		return Denied
	}
	return WouldDeny
}

// Filter selects requests. Zero fields match everything.
type Filter struct {
	// Outcome is Allowed, Denied, WouldDeny or Degraded.
	Outcome string
	// Rule, Mode and Node must be equal; Key and Route must be contained, and with
	// WholeKey Key must be equal. Route may have a method before it. Rule also selects allowed requests that the rule
	// counted.
	Rule, Mode, Node, Key, Route string
	WholeKey                     bool
	// Value must equal the value of the attribute called Attribute.
	Attribute, Value string
	// From and To bound the time; To is excluded.
	From, To time.Time
}

// Match reports whether a request is selected.
func (f *Filter) Match(r *Request) bool {
	at := r.Time()
	return (f.Rule == "" || r.Rule == f.Rule || r.Allowed && slices.Contains(r.Also, f.Rule)) &&
		(f.Mode == "" || r.Mode == f.Mode) && (f.Node == "" || r.Node == f.Node) &&
		(r.Key == f.Key || !f.WholeKey && strings.Contains(r.Key, f.Key)) && f.matchRoute(r) &&
		(f.From.IsZero() || !at.Before(f.From)) && (f.To.IsZero() || at.Before(f.To)) &&
		(f.Value == "" || r.Attributes[f.Attribute] == f.Value) &&
		(f.Outcome == "" || f.Outcome == r.Outcome() || f.Outcome == Degraded && r.Degraded != "")
}

// matchRoute compares with the path, or with the method before it, as the traffic by route and the search write it.
func (f *Filter) matchRoute(r *Request) bool {
	if strings.Contains(r.Route, f.Route) {
		return true
	}
	method, route, several := strings.Cut(f.Route, " ")
	return several && method == r.Method && strings.Contains(r.Route, route)
}

// The lists of samples on the board. Allowed requests have a separate list, so that they displace no denial.
const (
	deniedList  = "recent"
	allowedList = "allowed"
)

// sampleLists are the lists, with the number of samples that each keeps.
var sampleLists = map[string]int{deniedList: 2000, allowedList: 8000}

// sampleChunk is the largest number of lines in one read, so that decisions never wait long behind a read.
const sampleChunk = 500

// sampleList is a list of samples as a LiveReader last read it.
type sampleList struct {
	name string

	mu sync.Mutex
	// newest are the samples, newest first; they must not be changed. err is the error of the last read.
	newest []Request
	err    error
	asked  time.Time
	// board are the samples in the order of the shared board, the last one first.
	board []Request
}

// Requests returns up to n sampled requests that match, newest first, at most a second old. Callers must not change
// them. With an *OwnError they are requests of this node only.
func (r *LiveReader) Requests(ctx context.Context, f Filter, n int) ([]Request, error) {
	denied, err := r.samples(ctx, &r.denied)
	allowed, allowedErr := r.samples(ctx, &r.allowed)
	if err == nil {
		err = allowedErr
	}
	var out []Request
	for len(out) < n && len(denied)+len(allowed) > 0 {
		list := &denied
		if len(denied) == 0 || len(allowed) > 0 && allowed[0].At > denied[0].At {
			list = &allowed
		}
		if f.Match(&(*list)[0]) {
			out = append(out, (*list)[0])
		}
		*list = (*list)[1:]
	}
	return out, err
}

// Denials returns like Requests up to n matching samples, but only denials. The board keeps denials for a longer time.
func (r *LiveReader) Denials(ctx context.Context, f Filter, n int) ([]Request, error) {
	denied, err := r.samples(ctx, &r.denied)
	var out []Request
	for i := range denied {
		if len(out) < n && f.Match(&denied[i]) {
			out = append(out, denied[i])
		}
	}
	return out, err
}

// Request finds a sampled request that is still kept. It reads the board again,
// because the link to a request may come from another node.
func (r *LiveReader) Request(ctx context.Context, id string) (Request, bool, error) {
	var err error
	for _, l := range []*sampleList{&r.denied, &r.allowed} {
		l.mu.Lock()
		all, readErr := r.kept(ctx, l)
		l.mu.Unlock()
		if i := slices.IndexFunc(all, func(d Request) bool { return d.ID == id }); i >= 0 {
			return all[i], true, nil
		}
		err = cmp.Or(err, readErr)
	}
	return Request{}, false, err
}

// samples returns a list, newest first, at most a second old.
func (r *LiveReader) samples(ctx context.Context, l *sampleList) ([]Request, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := r.now()
	if age := now.Sub(l.asked); age < 0 || age >= fresh {
		l.newest, l.err = r.kept(context.WithoutCancel(ctx), l) // it is for others too
		l.asked = now
	}
	return l.newest, l.err
}

// kept reads a list, newest first. Its lock is held.
func (r *LiveReader) kept(ctx context.Context, l *sampleList) ([]Request, error) {
	var all []Request
	err := r.from(ctx, func(ctx context.Context, b Board) (err error) {
		if r.own != nil && b == Board(r.own) {
			all, err = readSamples(ctx, b, l.name, nil)
			return err
		}
		if all, err = readSamples(ctx, b, l.name, l.board); err == nil {
			l.board = all
		}
		return err
	})
	if err != nil && all == nil {
		return nil, fmt.Errorf("read recent requests: %w", err)
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(b.At, a.At) })
	return all, err
}

// readSamples reads a list of a board, the last sample first: from its end up to what was read before.
func readSamples(ctx context.Context, b Board, list string, before []Request) ([]Request, error) {
	keep := sampleLists[list]
	known := make(map[string]bool, len(before))
	for i := range before {
		known[before[i].ID] = true
	}
	all := make([]Request, 0, len(before))
	for skip := 0; skip < keep; skip += sampleChunk {
		read, err := b.Recent(ctx, list, skip, min(sampleChunk, keep-skip))
		if err != nil {
			return nil, err
		}
		old := false // the last line was read before
		for _, line := range read {
			var d Request
			if json.Unmarshal([]byte(line), &d) != nil {
				continue
			}
			if old = known[d.ID] && len(before) > 0; known[d.ID] {
				continue // a post whose answer was lost is there twice
			}
			all = append(all, d)
		}
		if old {
			all = append(all, before...)
			return all[:min(keep, len(all))], nil
		}
		if len(read) < sampleChunk {
			break
		}
	}
	return unique(all), nil
}

func unique(all []Request) []Request {
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(d Request) bool {
		again := seen[d.ID]
		seen[d.ID] = true
		return again
	})
}
