package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/view"
)

// overview is the home page: what the fleet decides, what is in force, and how
// the nodes are.
func (s *Server) overview(v *visit) error {
	m := s.liveOverview(v)
	recent, err := s.browse(v, rules.Browse{Query: rules.Query{PageSize: 5}, Sort: "updated_at", Desc: true})
	if err != nil {
		return err
	}
	m.Stored, m.Recent = recent.Total, ruleLines(&recent)
	return v.page(http.StatusOK, view.OverviewPage(v.frame("Overview", pathHome), m))
}

// liveOverview is what moves on the overview.
func (s *Server) liveOverview(v *visit) view.Overview {
	node := s.deps.Node()
	m := view.Overview{
		Node: node.Status, Embedded: node.Embedded, Degraded: node.Degraded(),
		Live: s.deps.Fleet.Live(v.ctx), Rates: map[string]view.Rate{},
	}
	for _, of := range rates {
		m.Rates[of.name] = rateOf(m.Live.Seconds, of.count)
	}
	m.Traffic = view.Traffic{Points: fives(m.Live.Seconds), Span: "3m"}
	for i := range m.Live.Nodes {
		if n := &m.Live.Nodes[i]; !n.Unknown {
			m.Newest = max(m.Newest, n.SetVersion)
		}
	}
	latest, err := s.deps.Inspect.Denials.Denials(v.ctx, fleet.Filter{Mode: rules.ModeEnforce}, latestOf)
	m.Latest, m.LatestIDs, m.LatestAway = latest, s.ruleIDs(latest), unread(err)
	set := s.setNow()
	m.HotKeys, m.Hot = m.Live.HotKeys(), hotNow(set, m.Live.Hot)
	m.Denied, m.Busy = s.topRules(m.Live.Rules, set)
	if set == nil {
		return m
	}
	m.Active = set.Len()
	for i := range set.Len() {
		c := set.At(i)
		if c.Shadow {
			m.Shadow++
		}
		switch c.FailMode {
		case rules.FailClosed:
			m.FailClosed++
		case rules.FailLocal:
			m.FailLocal++
		default:
			m.FailOpen++
		}
	}
	return m
}

// unread reports whether figures are missing: neither those of all nodes nor those of
// this node could be read.
func unread(err error) bool {
	var own *fleet.OwnError
	return err != nil && !errors.As(err, &own)
}

// latestOf is how many denials the overview shows.
const latestOf = 5

// topOf is how many rules the overview names in each list.
const topOf = 6

// topRules are the rules that deny most and those that decide most.
func (s *Server) topRules(live []fleet.RuleLive, set *rules.Set) (denied, busy []view.RuleRate) {
	live = slices.Clone(live)
	named := map[string]bool{}
	pick := func(line func(fleet.Counts) int64, fits func(fleet.Counts) bool) []view.RuleRate {
		var out []view.RuleRate
		for i := range live {
			if len(out) < topOf && fits(live[i].Minute) {
				out = append(out, view.RuleRate{Name: live[i].Name, Minute: live[i].Minute, Line: lineOf(live[i].Tens, line)})
			}
		}
		for i := range out {
			named[out[i].Name] = true
		}
		return out
	}
	denied = pick(func(c fleet.Counts) int64 { return c.Denied }, func(c fleet.Counts) bool { return c.Denied > 0 })
	slices.SortStableFunc(live, func(a, b fleet.RuleLive) int { return cmp.Compare(b.Minute.Total(), a.Minute.Total()) })
	busy = pick(fleet.Counts.Total, func(c fleet.Counts) bool { return c.Total() > 0 })
	ids := map[string]int64{}
	if set != nil {
		for i := range set.Len() {
			if r := &set.At(i).Rule; named[r.Name] {
				ids[r.Name] = r.ID
			}
		}
	}
	for _, list := range [][]view.RuleRate{denied, busy} {
		for i := range list {
			list[i].ID = ids[list[i].Name]
		}
	}
	return denied, busy
}

func lineOf(points []fleet.Point, of func(fleet.Counts) int64) []float64 {
	out := make([]float64, max(0, len(points)-1)) // the last one is under way
	for i := range out {
		out[i] = float64(of(points[i].Counts))
	}
	return out
}

// fives adds up seconds in whole steps of five, by the clock.
func fives(seconds []fleet.Point) []fleet.Point {
	var out []fleet.Point
	for i := range seconds {
		at := seconds[i].At.Truncate(5 * time.Second)
		if n := len(out); n == 0 || !out[n-1].At.Equal(at) {
			if i+5 > len(seconds) || n == 0 && !seconds[i].At.Equal(at) {
				continue // not whole
			}
			out = append(out, fleet.Point{At: at})
		}
		out[len(out)-1].Add(seconds[i].Counts)
	}
	return out
}

// rates are what the overview shows a second.
var rates = []struct {
	name  string
	count func(fleet.Counts) int64
}{
	{"allowed", func(c fleet.Counts) int64 { return c.Allowed }},
	{"denied", func(c fleet.Counts) int64 { return c.Denied }},
	{"degraded", func(c fleet.Counts) int64 { return c.Degraded }},
}

// rateSeconds is over how long a rate is taken.
const rateSeconds = 10

// rateOf is the mean of the last seconds, and a line of the last three minutes.
func rateOf(seconds []fleet.Point, count func(fleet.Counts) int64) view.Rate {
	r := view.Rate{Line: make([]float64, len(seconds))}
	var sum int64
	for i := range seconds {
		n := count(seconds[i].Counts)
		r.Line[i] = float64(n)
		if i >= len(seconds)-rateSeconds {
			sum += n
		}
	}
	r.PerSecond = float64(sum) / (rateSeconds * time.Second).Seconds()
	return r
}

// ruleLines are the rows of a table of rules.
func ruleLines(list *rules.Listing) []view.RuleLine {
	lines := make([]view.RuleLine, len(list.Rules))
	for i := range list.Rules {
		r := &list.Rules[i]
		lines[i] = view.RuleLine{Rule: r, By: list.Editors[r.ID].Name}
	}
	return lines
}
