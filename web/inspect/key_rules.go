package inspect

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules/match"
	"sluice/rules/scope"
	"sluice/web/kit"
	"sluice/web/view"
)

// rulesOfKey is the largest number of rules that the page of a key shows.
const rulesOfKey = 20

// KeyRule is a rule that counts a key.
type KeyRule struct {
	Bucket match.Bucket
	// Figures are the numbers of the bucket, nil if they are unknown.
	Figures *BucketFigures
	RuleDay
}

// rulesThatCount returns the rules in force that count a key, and their number: first the rule of b, then the rules
// with the most denials. Rules that count the key together with another fact have other keys and are not included.
func (p *Pages) rulesThatCount(b *match.Bucket, live *history.Live) (list []KeyRule, all int) {
	set, rank := p.Sets.Load(), rankOf(live)
	var same []*match.Compiled
	for i := range set.Len() {
		c := set.At(i)
		if c != b.Rule && c.Rule.Descriptor == nil && b.Rule.Rule.Descriptor == nil && b.Exception != "" &&
			sameFacts(c.Rule.Scope, b.Rule.Rule.Scope) {
			same = append(same, c)
		}
	}
	slices.SortStableFunc(same, func(x, y *match.Compiled) int {
		return cmp.Or(cmp.Compare(rank[x.Rule.Name], rank[y.Rule.Name]), cmp.Compare(x.Rule.Name, y.Rule.Name))
	})
	list = []KeyRule{{Bucket: *b}}
	for _, c := range same[:min(len(same), rulesOfKey-1)] {
		if other, err := set.FindBucket(c, b.Name, p.Now()); err == nil {
			list = append(list, KeyRule{Bucket: other})
		}
	}
	return list, len(same) + 1
}

// rankOf orders rules by their denials: the rule with the most denials has the lowest rank, rules without figures have
// 0.
func rankOf(live *history.Live) map[string]int {
	rank := make(map[string]int, len(live.Rules))
	for i := range live.Rules {
		rank[live.Rules[i].Name] = i - len(live.Rules)
	}
	return rank
}

// sameFacts reports whether two scopes name the same facts.
func sameFacts(x, y string) bool {
	if x == y {
		return true
	}
	a, b := strings.Split(x, "+"), strings.Split(y, "+")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// fill reads the buckets of a key. Those that cannot be read stay unknown, and all if the counter store fails: a home
// region that does not answer concerns the rules whose keys are at home there.
func (p *Pages) fill(ctx context.Context, m *KeyPage) {
	for i := range m.Counting {
		r := &m.Counting[i]
		if i == 0 {
			r.Figures = m.Figures
			continue
		}
		if r.Bucket.Key == "" || m.CountersDown && !m.HomeDown {
			continue
		}
		peeked, err := p.peek(ctx, &r.Bucket)
		if err != nil && limiter.CauseOf(err) != limiter.CauseHome {
			return
		}
		r.Figures = peeked.Figures
	}
}

// rulesFor returns the bucket for the page of a key that was requested without a rule: the bucket of the rule in force
// with the most denials among the rules that count the key. The key must name its fact, as in user:42. The bucket is
// nil if no rule counts the key.
func (p *Pages) rulesFor(ctx context.Context, key string) *match.Bucket {
	set := p.Sets.Load()
	if set == nil {
		return nil
	}
	live := p.Fleet.Live(ctx)
	rank := rankOf(&live)
	var found *match.Bucket
	best := math.MaxInt
	for i := range set.Len() {
		c := set.At(i)
		if n := rank[c.Rule.Name]; n < best && labelled(c.Rule.Scope, key) {
			if b, err := set.FindBucket(c, key, p.Now()); err == nil {
				found, best = &b, n
			}
		}
	}
	return found
}

// labelled reports whether a key names a fact of a scope.
func labelled(scopeText, key string) bool {
	first, _, named := strings.Cut(key, ":")
	if !named {
		return false
	}
	if first == "attr" {
		return strings.HasPrefix(scopeText, "attr:")
	}
	return scopeText != scope.Global && slices.Contains(strings.Split(scopeText, "+"), first)
}

// lastRequests returns the last stored requests of a key, newest first. For a key that stands for all requests, it
// returns the requests of the rule.
func (p *Pages) lastRequests(ctx context.Context, b *match.Bucket) ([]history.Request, error) {
	f := history.Filter{Key: cmp.Or(b.Exception, b.Name), WholeKey: true}
	if b.Exception == "" {
		f.Rule = b.Rule.Rule.Name
	}
	return p.Denials.Requests(ctx, f, recentOfKey)
}

// partsOf returns the nodes that report a key among their busiest keys. known is false if that cannot be read.
func partsOf(b *match.Bucket, live *history.Live) (nodes []history.HotNode, known bool) {
	for i := range live.Hot {
		if h := &live.Hot[i]; h.RuleID == b.Rule.Rule.ID && h.Bucket == b.Name {
			nodes = h.Nodes
		}
	}
	return nodes, live.Err == nil && !live.Own
}

// Acts are the actions on a key that a page offers.
type Acts struct {
	Rule, Key string
	// Raised is the limit for an hour, 0 if the key cannot have a higher one.
	Raised int64
	// Block and Reset are offered.
	Block, Reset bool
}

// about names the key and the rule to screen readers, which meet several buttons of a kind.
func (a Acts) about() string { return a.Key + " at " + a.Rule }

// actsOf are the actions on a bucket.
func actsOf(f view.Frame, b *match.Bucket) Acts {
	a := Acts{Rule: b.Rule.Rule.Name, Key: b.Name}
	if !f.CanEdit {
		return a
	}
	a.Reset = b.Key != ""
	if own := b.Override.ID > 0 && !b.Override.Several(); b.Exception == "" || own {
		return a
	}
	a.Block = true
	if limit := max(b.Limit.Count, b.Rule.Rule.Limit); !b.Override.Unlimited && limit <= limiter.MaxExact/2 {
		a.Raised = 2 * limit
	}
	return a
}

// Seen says when requests of a key were decided, as far as that is known.
type Seen struct {
	// First is the start of the first known day, Last the time of the last known decision; both are zero if unknown.
	// LastHour means that the decision was in the hour that begins at Last.
	First, Last time.Time
	LastHour    bool
	// Unreadable means that the figures could not be read.
	Unreadable bool
}

// daysSeen is how far Seen.First goes back.
const daysSeen = 24

// seen finds out when requests of the key on page m were decided. name is the name of the key in figures.
func (p *Pages) seen(v *kit.Visit, name string, m *KeyPage) Seen {
	var s Seen
	today := p.Now().UTC().Truncate(history.Day)
	from, to := today.Add(-(daysSeen-1)*history.Day), today.Add(history.Day)
	row, err := p.rowOf(v.Ctx, history.Query{Rule: m.Bucket.Rule.Rule.Name, By: history.ByKey, From: from, To: to,
		Step: history.Day}, name)
	s.Unreadable = err != nil || m.Day.Unreadable
	for i, n := range partsKnown(row, from, to, history.Day) {
		if n > 0 {
			s.First = from.Add(time.Duration(i) * history.Day)
			break
		}
	}
	if len(m.Counting) > 0 {
		for i, n := range m.Counting[0].Hours {
			if n > 0 {
				s.Last, s.LastHour = m.Day.From.Add(time.Duration(i)*time.Hour), true
			}
		}
	}
	for i := range m.Recent {
		d := &m.Recent[i]
		if d.Rule != m.Bucket.Rule.Rule.Name {
			continue
		}
		if at := d.Time(); !s.LastHour && at.After(s.Last) || s.LastHour && !at.Before(s.Last) {
			s.Last, s.LastHour = at, false
		}
		if at := d.Time().UTC().Truncate(history.Day); s.First.IsZero() || at.Before(s.First) {
			s.First = at
		}
	}
	return s
}
