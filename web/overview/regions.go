package overview

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/internal/region/exchange"
	"sluice/internal/region/sharing"
	"sluice/web/kit"
	"sluice/web/view"
)

// RegionPage is the page of regions.
type RegionPage struct {
	// Enabled means that this server has regions.
	Enabled bool
	// SetVersion is the version of the rules of this node.
	SetVersion int64
	exchange.Overview
	Shares sharing.Overview
}

// regions shows how the exchange between regions goes, as this node sees it.
func (p *Pages) regions(v *kit.Visit) error {
	m := RegionPage{Enabled: p.Regions != nil}
	if set := p.Sets.Load(); set != nil {
		m.SetVersion = set.Version()
	}
	if m.Enabled {
		m.Overview = p.Regions()
	}
	if p.Shares != nil {
		m.Shares = p.Shares()
	}
	return v.Page(http.StatusOK, regionsPage(v.Frame("Regions", kit.PathRegions), m))
}

// cut are the names of the regions that are cut off.
func (m *RegionPage) cut() string {
	var names []string
	for i := range m.Peers {
		if m.Peers[i].CutOff {
			names = append(names, m.Peers[i].Name)
		}
	}
	return strings.Join(names, ", ")
}

// lagWords are a lag now and its 99th percentile.
func lagWords(s *exchange.Status) string {
	if s.Lags == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%d ms, p99 %d ms", s.LagNow.Milliseconds(), s.LagP99.Milliseconds())
}

// clockWords say how far a clock is ahead.
func clockWords(s *exchange.Status) string {
	if !s.SkewKnown {
		return "not known"
	}
	return fmt.Sprintf("%+d ms", s.Skew.Milliseconds())
}

// bucketWords say what became of buckets.
func bucketWords(s *exchange.Status) string {
	text := view.Count(s.Told) + " sent, " + view.Count(int64(s.Here.Applied)) + " applied"
	for _, of := range []struct {
		n    int
		word string
	}{{s.Here.Shrunk, "contradicted"}, {s.Here.Unknown, "of unknown rules"}} {
		if of.n > 0 {
			text += ", " + view.Count(int64(of.n)) + " " + of.word
		}
	}
	return text
}

// secondsOf is a duration in whole seconds.
func secondsOf(d time.Duration) string { return view.Count(int64(d/time.Second)) + " s" }

// askedWords say what a region is asked for.
func askedWords(s *sharing.RegionShare) string {
	if !s.Heard {
		return "not heard"
	}
	return view.Count(s.Asked)
}
