package web_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// lasting adds an incident that lasts.
func lasting(w *webtest.World) {
	w.Incidents.Change(func(f *webtest.Incidents) { f.List = append(f.List, webtest.RunningIncident()) })
}

func TestIncidents_ThoseThatLastComeFirstAndFiltersSelect(t *testing.T) {
	w := world(t, webtest.Full)
	lasting(w)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/incidents")
	if page.Code != http.StatusOK {
		t.Fatalf("status %d", page.Code)
	}
	last := -1
	for _, want := range []string{"Running now: 1", "1,240 requests: 1,204 by local, 36 by closed", "50 denied", "Before",
		"connection refused", "1 min 4 s", "846 requests: 620 by local, 212 by open, 14 by closed", "21 denied",
		"and 1 more node",
		"Rules database unreachable", "Regions cut off", "eu hears nothing from asia", "asia, us", "1 min 35 s",
		"not counted here", "Node lacked CPU", "raise its CPU limit", "none: the limits decided, late", "end unknown"} {
		at := strings.Index(page.Body[last+1:], want)
		if at < 0 {
			t.Fatalf("no %q after the text before it", want)
		}
		last += 1 + at
	}
	for path, want := range map[string]int{
		"?rule=logins-per-address": 2, "?node=10.0.0.2:8080": 3, "?range=1h": 2, "?range=24h": 2, "?range=7d": 6,
		"?range=3h": 2, "?rule=none": 0,
		"?to=" + webtest.Now.Add(-2*time.Hour).Format(time.RFC3339): 4,
	} {
		if got := strings.Count(b.Get("/console/incidents"+path).Body, "data-incident="); got != want {
			t.Errorf("%s shows %d incidents, want %d", path, got, want)
		}
	}
}

func TestIncidents_AnImpossibleAddressIsNamed(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for path, want := range map[string]string{
		"?range=ever": "range: must be", "?from=noon": "from: must be a time", "?to=1": "to: must be a time",
		"?from=2026-11-23T12:00:00Z&to=2026-11-22T12:00:00Z": "to: must be after from",
	} {
		if page := b.Get("/console/incidents" + path); page.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(page.Body, want) {
			t.Errorf("%s: status %d without %q", path, page.Code, want)
		}
		if page := b.Get("/console/incidents.csv" + path); page.Code != http.StatusUnprocessableEntity {
			t.Errorf("CSV of %s: status %d", path, page.Code)
		}
	}
}

func TestIncidents_CSVHasALineForAllRequestsAndOneForEachRule(t *testing.T) {
	w := world(t, webtest.Full)
	w.Incidents.Change(func(f *webtest.Incidents) { f.List[0].Node = "=cmd()" })
	page := w.As(access.RoleViewer).Get("/console/incidents.csv?rule=logins-per-address")
	rows, err := csv.NewReader(strings.NewReader(page.Body)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d lines (%v):\n%s", len(rows), err, page.Body)
	}
	of := func(row []string) map[string]string {
		out := map[string]string{}
		for i, name := range rows[0] {
			out[name] = row[i]
		}
		return out
	}
	all, rule := of(rows[1]), of(rows[2])
	if all["rule"] != "" || all["local"] != "620" || all["denied"] != "21" || all["state"] != "ended" ||
		all["node"] != "'=cmd()" || all["cause"] != "connection refused" || all["end"] == "" {
		t.Errorf("all requests: %v", all)
	}
	if rule["rule"] != "logins-per-address" || rule["closed"] != "14" || rule["denied"] != "14" || rule["open"] != "0" {
		t.Errorf("the rule: %v", rule)
	}
}

func TestIncidents_WithoutTheDatabaseThoseOfThisNodeAreShownAsSuch(t *testing.T) {
	w := world(t, webtest.Full)
	lasting(w)
	w.Incidents.Change(func(f *webtest.Incidents) { f.Err = errors.New("connection refused by 10.1.1.1") })
	b := w.As(access.RoleViewer)
	page := b.Get("/console/incidents")
	if page.Code != http.StatusOK || !strings.Contains(page.Body, "only incidents that this node remembers") ||
		!strings.Contains(page.Body, "Running now: 1") || strings.Contains(page.Body, "10.1.1.1") {
		t.Errorf("status %d, or the page does not say what is missing", page.Code)
	}
	if csv := b.Get("/console/incidents.csv"); !strings.Contains(csv.Header.Get("Content-Disposition"), "incomplete") {
		t.Errorf("the file is called %s", csv.Header.Get("Content-Disposition"))
	}
}

func TestIncidents_OlderOnesAreAPageAway(t *testing.T) {
	w := world(t, webtest.Full)
	w.Incidents.Change(func(f *webtest.Incidents) {
		first := f.List[0]
		f.List = nil
		for n := range 120 {
			first.ID, first.Begin = fmt.Sprint("i", n), webtest.Now.Add(-time.Duration(n)*time.Hour)
			first.End = first.Begin.Add(time.Minute)
			f.List = append(f.List, first)
		}
	})
	b, seen, path := w.As(access.RoleViewer), map[string]bool{}, "/console/incidents"
	for range 3 {
		page := b.Get(path)
		for _, part := range strings.Split(page.Body, `data-incident="`)[1:] {
			seen[part[:strings.IndexByte(part, '"')]] = true
		}
		_, rest, more := strings.Cut(page.Body, `rel="next" href="`)
		if !more {
			break
		}
		path = strings.ReplaceAll(rest[:strings.IndexByte(rest, '"')], "&amp;", "&")
	}
	if len(seen) != 120 {
		t.Errorf("three pages show %d of 120 incidents", len(seen))
	}
}

func TestJourney_AnIncidentIsSeenWhileItLasts(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(url, w.As(access.RoleViewer).Cookies()); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitVisible("#live-tiles"))
	lasting(w)
	steps(t, tab, chromedp.WaitVisible("[data-running] a"), chromedp.Click("[data-running] a"),
		chromedp.WaitVisible("#live-running [data-incident]"))
	w.Incidents.Change(func(f *webtest.Incidents) {
		in := &f.List[len(f.List)-1]
		in.Total.Local = 5432
	})
	until(t, tab, `document.querySelector("#live-running").textContent.includes("5,432 by local")`)
	w.Incidents.Change(func(f *webtest.Incidents) { f.List[len(f.List)-1].End = webtest.Now.Add(time.Second) })
	until(t, tab, `document.querySelector("#live-running [data-incident]") === null &&
		document.querySelector("#live-past").textContent.includes("5,432 by local")`)
}
