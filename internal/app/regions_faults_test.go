package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/history/incident"
	"sluice/internal/region"
	"sluice/internal/trouble"
)

// A cut is an alert and an incident of every region that is concerned, and both end when the regions hear each other.
func TestRegions_ACutIsAnAlertAndAnIncident(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	cfg := p.cfg["eu"]
	db, find := p.nodes["eu"].database(t, &cfg), stored(t, &cfg)
	for _, name := range p.names {
		eventually(t, name+" hears the others", func() bool { return p.nodes[name].metricsOfCuts() == 0 })
	}
	told := func(state string) (out []string) {
		events, err := db.AlertEvents(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			e := &events[i]
			if e.Kind != alerts.KindRegionCutOff || e.State != state {
				continue
			}
			if out = append(out, e.Data.Text); state == alerts.On && (e.Data.Path != "/console/regions" || e.Data.Cause == "") {
				t.Errorf("the alert is %+v", e.Data)
			}
		}
		slices.Sort(out)
		return out
	}
	// On a busy machine regions are cut off as they start, and may be again: those alerts end too.
	over := func() bool { return len(told(alerts.On)) == len(told(alerts.Off)) }
	eventually(t, "alerts of the start end", over)
	before := told(alerts.On)
	p.cut("asia", true)
	count := func(texts []string, pair string) (n int) {
		for _, text := range texts {
			if strings.Contains(text, "The regions "+pair+" ") {
				n++
			}
		}
		return n
	}
	for _, pair := range []string{"asia and eu", "asia and us"} {
		eventually(t, "the alert of "+pair, func() bool { return count(told(alerts.On), pair) > count(before, pair) })
	}
	running := func() (servers []string) {
		for _, i := range find() {
			if i.Kind == incident.Regions && i.Running() {
				servers = append(servers, i.Server)
			}
		}
		slices.Sort(servers)
		return servers
	}
	eventually(t, "every region has an incident", func() bool {
		return slices.Equal(running(), []string{"asia", "asia", "eu, us"})
	})
	p.cut("asia", false)
	eventually(t, "the incidents end", func() bool { return len(running()) == 0 })
	eventually(t, "the alerts end", over)
}

// metricsOfCuts is how many regions are cut off from that of the node.
func (n *node) metricsOfCuts() float64 { return n.sum(`sluice_region_cut_off\{.*\}`) }

// The log says once that a region is cut off and why, and once that it is not any more.
func TestNoteCuts_SaysWhenARegionIsCutOff(t *testing.T) {
	lines := &strings.Builder{}
	h := &Host{Now: time.Now, trouble: trouble.New(slog.New(slog.NewTextHandler(lines, nil)), time.Now, nil)}
	us := region.Status{Name: "us", CutOff: true, CutFor: cutIncident - 1, Failure: "no route"}
	asia := region.Status{Name: "asia"}
	for _, step := range []struct {
		cutOff bool
		cutFor time.Duration
		want   string
	}{
		{true, cutIncident - 1, ""},
		{true, cutIncident, "level=WARN region=us failure=\"no route\""},
		{true, time.Hour, ""},
		{false, 0, "level=INFO region=us"},
		{false, 0, ""},
	} {
		lines.Reset()
		us.CutOff, us.CutFor = step.cutOff, step.cutFor
		h.noteCuts(&region.Overview{Self: "eu", Peers: []region.Status{asia, us}})
		got := lines.String()
		for _, want := range strings.SplitN(step.want, " ", 3) {
			if !strings.Contains(got, want) || step.want == "" && got != "" {
				t.Errorf("cut off %v for %v: %q, want %q", step.cutOff, step.cutFor, got, step.want)
			}
		}
	}
}

func TestRegionConditions(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	us := region.Status{Name: "us", Set: 3}
	known := true
	c := &regionConditions{now: func() time.Time { return now }, overview: func() (region.Overview, bool) {
		return region.Overview{Self: "eu", Peers: []region.Status{us}}, known
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
