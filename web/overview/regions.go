package overview

import (
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/region"
	"sluice/internal/region/home"
	"sluice/web/kit"
	"sluice/web/view"
)

// RegionPage is the page of regions.
type RegionPage struct {
	// Enabled means that this server has regions.
	Enabled bool
	// SetVersion is the version of the rules of this node.
	SetVersion int64
	region.Overview
	// Now is when the page was made, IDs the rules in force by name.
	Now time.Time
	IDs map[string]int64
}

// regions shows how the exchange between regions goes, as this node sees it.
func (p *Pages) regions(v *kit.Visit) error {
	return v.Page(http.StatusOK, regionsPage(v.Frame("Regions", kit.PathRegions), p.regionPage()))
}

// RegionFeed returns the live parts of the page of regions.
func (p *Pages) RegionFeed(*kit.Visit) kit.Feed {
	return func() templ.Component { return regionParts(p.regionPage()) }
}

func (p *Pages) regionPage() RegionPage {
	m := RegionPage{Enabled: p.Regions != nil, Now: p.Now()}
	if set := p.Sets.Load(); set != nil {
		m.SetVersion = set.Version()
	}
	if m.Enabled {
		m.Overview = p.Regions()
	}
	var names []string
	for _, r := range m.Rules {
		names = append(names, r.Rule)
	}
	for i := range m.Shares.Rules {
		names = append(names, m.Shares.Rules[i].Rule)
	}
	m.IDs = p.IDs(names...)
	return m
}

// cutAdvice says where to look when a region is cut off.
func cutAdvice(s *region.Status) string {
	if s.Refuses {
		return s.Name + " refuses the messages of this region: " + s.Failure + "."
	}
	return "Check that " + s.Name + " runs, and the network in both directions. Its page of regions says why this " +
		"region does not take its messages, if that is so."
}

// stateWords say how a region is reached, with the kind of the badge. While Redis does not answer, nothing is known of
// the other regions.
func (m *RegionPage) stateWords(s *region.Status) (kind, words string) {
	switch {
	case s.CutOff:
		return "bad", "cut off for " + view.Length(s.CutFor)
	case m.Failing:
		return "warn", "not known"
	case s.Failure != "":
		return "warn", "does not take messages"
	}
	return "good", "connected"
}

// cutSince is when the region was cut off.
func (m *RegionPage) cutSince(s *region.Status) time.Time { return m.Now.Add(-s.CutFor) }

// lagWords returns texts for the present lag and its 99th percentile. Measurements from before a cut say nothing about
// the present.
func lagWords(s *region.Status) (now, p99 string) {
	switch {
	case s.CutOff:
		return "cut off", ""
	case s.Lags == 0:
		return "not measured", ""
	}
	return view.Length(s.LagNow), "99% within " + view.Length(s.LagP99)
}

// clockWords say how far a clock is ahead or behind.
func clockWords(s *region.Status) string {
	switch {
	case !s.SkewKnown:
		return "not known"
	case s.Skew >= time.Millisecond:
		return view.Length(s.Skew) + " ahead"
	case s.Skew <= -time.Millisecond:
		return view.Length(-s.Skew) + " behind"
	}
	return "the same"
}

// versionWords say how the version of the rules there differs from the one here.
func versionWords(there, here int64) string {
	if there < here {
		return "behind"
	}
	return "ahead"
}

// oddWords are buckets that were received and ignored, "" if there are none.
func oddWords(s *region.Status) string {
	var parts []string
	for _, of := range []struct {
		n    int
		word string
	}{{s.Here.Shrunk, "contradicted"}, {s.Here.Unknown, "of unknown rules"}} {
		if of.n > 0 {
			parts = append(parts, view.Count(int64(of.n))+" "+of.word)
		}
	}
	return strings.Join(parts, ", ")
}

// callWords say how many calls for keys at home there were decided, and how many failed.
func callWords(s *region.Status) string {
	text := view.Count(s.Calls.Decided) + " decided"
	if s.Calls.Failed > 0 {
		text += ", " + view.Count(s.Calls.Failed) + " failed"
	}
	return text
}

// failingWords say why the home region of keys does not decide.
func failingWords(s *region.Status) string {
	if words, ok := map[string]string{
		home.ReasonCutOff: "it is cut off", home.ReasonBusy: "it is busy", home.ReasonTimeout: "no answer in time",
		home.ReasonConnection: "no connection", home.ReasonRefused: "it refuses messages of this region",
		home.ReasonAnswer: "the answer is not one of Sluice", home.ReasonStore: "its counter store cannot decide",
		home.ReasonRule: "it does not have the rule, or another version of it",
	}[s.Calls.Failing]; ok {
		return words
	}
	return s.Calls.Failing
}

// unitsWords says how many units of a divided limit this region may spend, and how many no region may spend.
func unitsWords(r *region.RuleShares) string {
	text := "This region may spend " + view.Count(r.Share) + " of " + view.Count(r.Limit) + " now."
	if r.Unused > 0 {
		text += " No region may spend " + view.Count(r.Unused) + " that wait here to be lent or given back."
	}
	return text
}

// askedWords says how many units a region is asked for at present.
func askedWords(s *region.RegionShare) string {
	if s.Asked == nil {
		return "not heard"
	}
	return view.Count(*s.Asked)
}
