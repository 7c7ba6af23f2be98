package web

import (
	"net/http"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/view"
)

// overview is the home page: what the fleet decides, what is in force, and how
// the nodes are.
func (s *Server) overview(v *visit) error {
	node := s.deps.Node()
	m := view.Overview{
		Node: node.Status, Embedded: node.Embedded, Degraded: node.Degraded(),
		Live: s.deps.Fleet.Live(v.ctx), Rates: map[string]view.Rate{},
	}
	for _, of := range rates {
		m.Rates[of.name] = rateOf(m.Live.Seconds, of.count)
	}
	if set := s.deps.Sets.Load(); set != nil {
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
	}
	recent, err := s.deps.Rules.BrowseRules(v.ctx, rules.Browse{Query: rules.Query{PageSize: 5}, Sort: "updated_at", Desc: true})
	if err != nil {
		return err
	}
	m.Stored, m.Recent = recent.Total, ruleLines(&recent)
	return v.page(http.StatusOK, view.OverviewPage(v.frame("Overview", pathHome), m))
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
