package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/region/exchange"
	"sluice/internal/stats"
)

// A cut is an alert and an incident of every region that is concerned, and both end when the regions hear each other.
func TestRegions_ACutIsAnAlertAndAnIncident(t *testing.T) {
	was := cutAlert
	cutAlert = time.Second
	t.Cleanup(func() { cutAlert = was })
	p := newPlanet(t)
	cfg := p.cfg["eu"]
	db, find := p.nodes["eu"].database(t, &cfg), stored(t, &cfg)
	for _, name := range p.names {
		eventually(t, name+" hears the others", func() bool { return p.nodes[name].metricsOfCuts() == 0 })
	}
	p.cut("asia", true)
	told := func(state string) (out []string) {
		events, err := db.AlertEvents(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			if e := &events[i]; e.Kind == alerts.KindRegionCutOff && e.State == state {
				out = append(out, e.Data.Text)
			}
		}
		slices.Sort(out)
		return out
	}
	both := func(text string) []string {
		return []string{fmt.Sprintf(text, "asia and eu"), fmt.Sprintf(text, "asia and us")}
	}
	eventually(t, "two alerts begin", func() bool {
		return slices.Equal(told(alerts.On), both("The regions %s are cut off from each other."))
	})
	if events, _ := db.AlertEvents(t.Context(), 0, 1); events[0].Data.Path != "/console/regions" ||
		!strings.Contains(events[0].Data.Cause, "asia") {
		t.Errorf("the alert is %+v", events[0].Data)
	}
	ofRegions := func() (out []stats.Incident) {
		return slices.DeleteFunc(find(), func(i stats.Incident) bool { return i.Kind != stats.IncidentRegions })
	}
	eventually(t, "every region has an incident", func() bool {
		all := ofRegions()
		return len(all) == 3 && all[0].Running() && all[1].Running() && all[2].Running()
	})
	servers := []string{}
	for _, in := range ofRegions() {
		servers = append(servers, in.Server)
	}
	slices.Sort(servers)
	if want := []string{"asia", "asia", "eu, us"}; !slices.Equal(servers, want) {
		t.Errorf("the incidents are of %q, want %q", servers, want)
	}
	p.cut("asia", false)
	eventually(t, "the incidents end", func() bool {
		return !slices.ContainsFunc(ofRegions(), func(i stats.Incident) bool { return i.End.IsZero() || i.Stopped })
	})
	eventually(t, "the alerts end", func() bool {
		return slices.Equal(told(alerts.Off), both("The regions %s hear each other again."))
	})
}

// metricsOfCuts is how many regions are cut off from that of the node.
func (n *node) metricsOfCuts() float64 { return n.sum(`sluice_region_cut_off\{.*\}`) }

func TestRegionConditions(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	us := exchange.Status{Name: "us", Set: 3}
	known := true
	c := &regionConditions{now: func() time.Time { return now }, overview: func() (exchange.Overview, bool) {
		return exchange.Overview{Self: "eu", Peers: []exchange.Status{us}}, known
	}}
	met := func(version int64) string {
		var out []string
		for _, m := range c.met(version) {
			out = append(out, fmt.Sprintf("%s %s: %s %v", m.Subject.Kind, m.Subject.Level, m.Cause, m.Numbers))
		}
		return strings.Join(out, "; ")
	}
	check := func(what string, version int64, want string) {
		t.Helper()
		if got := met(version); got != want {
			t.Errorf("%s: met %q, want %q", what, got, want)
		}
	}
	check("all is well", 3, "")
	us.CutOff, us.CutFor = true, cutAlert-time.Millisecond
	check("a short cut", 3, "")
	us.CutFor = cutAlert
	check("a cut", 3, "region_cut_off eu and us: eu hears nothing from us map[]")
	us.Failure = "dial tcp 203.0.113.7:8080: connection refused"
	check("a cut", 3, "region_cut_off eu and us: us does not take the messages of eu map[]")
	us.Refuses = true
	check("a cut", 3, "region_cut_off eu and us: us refuses the messages of eu map[]")
	us = exchange.Status{Name: "us", Set: 3}
	for range 4 * 60 {
		now = now.Add(time.Second)
		check("edits all the time, a moment late", us.Set+1, "")
		us.Set++
	}
	now = now.Add(lackedEdit)
	check("a new edit", us.Set+1, "")
	now = now.Add(lackedEdit - time.Second)
	check("the edit is on its way", us.Set+1, "")
	now = now.Add(time.Second)
	check("the edit is lacking", us.Set+1, "region_set_old us:  map[elsewhere:244 version:243]")
	check("an older database is back", us.Set, "")
	us.CutOff = true
	check("it is cut off, which is an alert by itself", us.Set+1, "")
	known = false
	check("before the exchange has begun", us.Set+1, "")
	if len(c.versions) > 3 {
		t.Errorf("%d versions are remembered", len(c.versions))
	}
}
