package web_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/static"
	"sluice/web/webtest"
)

// figures is a history.Source made of a function.
type figures func(q history.Query) (history.Result, error)

func (f figures) Stats(_ context.Context, q history.Query) (history.Result, error) { return f(q) }

// withFigures is a viewer's browser of a console with a source of figures.
func withFigures(t *testing.T, f figures) *webtest.Browser {
	t.Helper()
	w := world(t, webtest.Full)
	d := w.Deps(nil)
	d.Stats = f
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	return w.As(access.RoleViewer)
}

// hourOf are 60 points of a minute, of which the first unknown ones are unknown.
func hourOf(q history.Query, unknown int, each history.Figures) history.Series {
	s := history.Series{Rule: q.Rule}
	for at := q.From.Truncate(q.Step); at.Before(q.To); at = at.Add(q.Step) {
		p := history.Point{At: at, Peak: -1}
		if unknown--; unknown < 0 {
			p.Known, p.Figures, p.Peak = true, each, 7
		}
		s.Points = append(s.Points, p)
	}
	return s
}

func answer(q history.Query, s history.Series, rows ...history.Row) history.Result {
	return history.Result{From: q.From.Truncate(q.Step), To: q.To, Step: q.Step, CompleteUntil: q.To,
		Series: []history.Series{s}, Top: rows, TopFrom: q.From.Truncate(q.Step), TopTo: q.To}
}

var cells = regexp.MustCompile(`(?s)<td[^>]*data-label="([^"]+)"[^>]*>(.*?)</td>`)
var tags = regexp.MustCompile(`<[^>]*>`)

// rowOf are the cells of the row with a link of some text, by their labels.
func rowOf(t *testing.T, body, name string) map[string]string {
	t.Helper()
	_, rest, found := strings.Cut(body, ">"+name+"</a>")
	if !found {
		t.Fatalf("no row %s", name)
	}
	rest, _, _ = strings.Cut(rest, "</tr>")
	out := map[string]string{}
	for _, c := range cells.FindAllStringSubmatch(rest, -1) {
		out[c[1]] = strings.Join(strings.Fields(tags.ReplaceAllString(c[2], " ")), " ")
	}
	return out
}

var rowLink = regexp.MustCompile(`class="whole-row" href="([^"]*)">([^<]*)<`)

// rowsOf are the names of the rows, in order.
func rowsOf(body string) (names []string) {
	for _, m := range rowLink.FindAllStringSubmatch(body, -1) {
		names = append(names, m[2])
	}
	return names
}

func TestTraffic_SharesAreOfAllAndOfAllDenied(t *testing.T) {
	b := withFigures(t, func(q history.Query) (history.Result, error) {
		return answer(q, hourOf(q, 0, history.Figures{Allowed: 90, Denied: 10, Degraded: 5}),
			history.Row{Key: "charges-per-user", Allowed: 600, Denied: 300, Peak: 12, Line: []int64{1, 5, 2}},
			history.Row{Key: "search-per-user", Allowed: 2400, Denied: 0, Peak: -1, Error: 4}), nil
	})
	page := b.Get("/console/traffic")
	if page.Code != http.StatusOK {
		t.Fatal(page.Code)
	}
	want := map[string]string{"Allowed": "600", "Denied": "300", "Of all": "15%", "Of denied": "50%", "Peak/s": "12",
		"Trend": ""}
	if got := rowOf(t, page.Body, "charges-per-user"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = map[string]string{"Allowed": "2,400 ± 4", "Denied": "0 ± 4", "Of all": "40%", "Of denied": "0%",
		"Peak/s": "–", "Trend": "–"}
	if got := rowOf(t, page.Body, "search-per-user"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !page.Has(">5,400<", ">600<", "10% of all", ">300<", "5% of all", ">7<", "± is by how much") {
		t.Error("the totals are wrong")
	}
}

// TestTraffic_WhatIsNotKnownIsNotZero also asks for the note about the part that is known.
func TestTraffic_WhatIsNotKnownIsNotZero(t *testing.T) {
	b := withFigures(t, func(q history.Query) (history.Result, error) {
		return answer(q, hourOf(q, 99, history.Figures{}), history.Row{Key: "charges-per-user", Allowed: 1, Peak: -1}), nil
	})
	page := b.Get("/console/traffic")
	if got := strings.Count(page.Body, `<span class="figure">–</span>`); got != 4 {
		t.Errorf("%d of the 4 totals are unknown", got)
	}
	if got := rowOf(t, page.Body, "charges-per-user"); got["Of all"] != "–" || got["Of denied"] != "–" {
		t.Errorf("shares of what is not known: %v", got)
	}
	if page.Has("% of all") {
		t.Error("a part of what is not known is shown")
	}
	b = withFigures(t, func(q history.Query) (history.Result, error) {
		return answer(q, hourOf(q, 99,
			history.Figures{})), nil
	})
	if page := b.Get("/console/traffic"); !page.Has("Nothing is known of this period") {
		t.Error("no rows of an unknown period are not told from a quiet one")
	}
	b = withFigures(t, func(q history.Query) (history.Result, error) {
		return answer(q, hourOf(q, 0,
			history.Figures{})), nil
	})
	if page := b.Get("/console/traffic"); !page.Has("No requests in this period") || page.Has("Nothing is known") {
		t.Error("a quiet period is not told")
	}
	b = withFigures(t, func(q history.Query) (history.Result, error) {
		r := answer(q, hourOf(q, 30, history.Figures{Allowed: 1}))
		r.CompleteUntil = q.To.Add(-2 * time.Minute)
		return r, nil
	})
	if page := b.Get("/console/traffic"); !page.Has("Nothing is known before", "may still grow") {
		t.Error("the page does not say what is unknown and what may still grow")
	}
}

// TestTraffic_SharesOfHoursAreOfTheWholeHours: keys are counted by the hour, so the total of five minutes is not
// theirs.
func TestTraffic_SharesOfHoursAreOfTheWholeHours(t *testing.T) {
	b := withFigures(t, func(q history.Query) (history.Result, error) {
		r := answer(q, hourOf(q, 0, history.Figures{Allowed: 50, Denied: 50}), history.Row{Key: "user:1", Denied: 150,
			Peak: -1})
		if q.Step == time.Hour {
			r.Series = []history.Series{hourOf(q, 0, history.Figures{Allowed: 200, Denied: 300})}
		}
		if q.By != "" {
			r.TopFrom, r.TopTo = q.From.Truncate(time.Hour), q.To.Add(time.Hour-1).Truncate(time.Hour)
		}
		return r, nil
	})
	page := b.Get("/console/traffic?by=key&range=5m")
	if got := rowOf(t, page.Body, "user:1"); got["Of denied"] == "100%" || got["Of denied"] != "50%" ||
		!page.Has("The rows cover") {
		t.Errorf("got %v", got)
	}
}

// TestTraffic_TrendsHaveOnlyWhatIsKnown: hours where only hours are known, without the one that still grows.
func TestTraffic_TrendsHaveOnlyWhatIsKnown(t *testing.T) {
	hours := func(line ...int64) *webtest.Browser {
		return withFigures(t, func(q history.Query) (history.Result, error) {
			r := answer(q, hourOf(q, 0, history.Figures{Allowed: 50}), history.Row{Key: "user:1", Allowed: 40, Peak: -1,
				Line: line})
			r.TopTo = webtest.Now.Truncate(time.Hour).Add(time.Hour)
			r.TopFrom, r.LineStep = r.TopTo.Add(-time.Duration(len(line))*time.Hour), time.Hour
			return r, nil
		})
	}
	page := hours(4, history.LineUnknown, 8, 6, 9).Get("/console/traffic?by=key&range=3h")
	// The fall of the running hour is not drawn, nor the unknown one.
	if !page.Has(`d="M0.0 14.0m-1.5 0h3M80.0 2.0L120.0 8.0"`, "Trends are by hour", "A request counts under each of its keys") {
		t.Error("the trend has other parts than the known hours")
	}
	page = hours(4, 9).Get("/console/traffic?by=key")
	if got := rowOf(t, page.Body, "user:1"); got["Trend"] != "–" ||
		!page.Has("There are no trends: keys are counted by the hour") {
		t.Errorf("one hour has the trend %q", got["Trend"])
	}
	none := withFigures(t, func(q history.Query) (history.Result, error) {
		r := answer(q, hourOf(q, 0, history.Figures{Allowed: 50}))
		r.TopRest = 7
		return r, nil
	})
	if page := none.Get("/console/traffic?by=key"); !page.Has("No key stands out", "none has more than 7 requests") {
		t.Error("keys that are all rare are not told")
	}
}

// TestTraffic_FailModesCoverNoDenial: what a fail mode decided is allowed or denied all the same, and is marked by a
// strip above the bars.
func TestTraffic_FailModesCoverNoDenial(t *testing.T) {
	b := withFigures(t, func(q history.Query) (history.Result, error) {
		s := hourOf(q, len(hourOf(q, 0, history.Figures{}).Points)-1,
			history.Figures{Allowed: 744, Denied: 168, Degraded: 912, DegradedDenied: 168})
		return answer(q, s), nil
	})
	page := b.Get("/console/traffic?range=5m")
	paths := map[string]string{}
	bars := regexp.MustCompile(`class="bars (\w+)" data-of="\w+"(?: data-strip)? d="([^"]*)"`)
	for _, m := range bars.FindAllStringSubmatch(page.Body, -1) {
		paths[m[1]] = m[2]
	}
	const allowed, denied = "v-116.1h", "v-26.2h" // of 156 for 1,000 requests
	if !strings.Contains(paths["good"], allowed) || !strings.Contains(paths["bad"], denied) ||
		!strings.Contains(paths["bad"], " 43.9h") || !regexp.MustCompile(`^M\S+ 0h\S+v4h`).MatchString(paths["warn"]) {
		t.Errorf("the bars are %v", paths)
	}
	if !page.Has("744 allowed, 168 denied, 912 by fail modes (744 allowed, 168 denied)",
		`data-label="By fail modes" data-rate="182/s">912 (168 denied)<`, "100% of all: 744 allowed, 168 denied") {
		t.Error("the words do not say how fail modes decided")
	}
	file := b.Get("/console/traffic.csv?of=series&range=5m")
	rows, err := csv.NewReader(strings.NewReader(file.Body)).ReadAll()
	if err != nil || rows[0][10] != "degraded_denied" || rows[len(rows)-1][10] != "168" || rows[1][10] != "" {
		t.Errorf("the file has %q (%v)", rows, err)
	}
}

func TestTraffic_IsSortedByEachColumn(t *testing.T) {
	b := withFigures(t, func(q history.Query) (history.Result, error) {
		return answer(q, hourOf(q, 0, history.Figures{Allowed: 9}), history.Row{Key: "a", Allowed: 2, Denied: 30, Peak: 1},
			history.Row{Key: "b", Allowed: 300, Denied: 20, Peak: 3}, history.Row{Key: "c", Allowed: 40, Denied: 10,
				Peak: 2}), nil
	})
	for path, want := range map[string]string{
		"": "abc", "?sort=denied": "cba", "?sort=denied&desc=1": "abc", "?sort=name": "abc", "?sort=name&desc=1": "cba",
		"?sort=allowed&desc=1": "bca", "?sort=all": "acb", "?sort=share&desc=1": "abc", "?sort=peak&desc=1": "bca",
		"?sort=nonsense": "abc",
	} {
		page := b.Get("/console/traffic" + path)
		if got := strings.Join(rowsOf(page.Body), ""); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
		if n := strings.Count(page.Body, "aria-sort="); n != 1 {
			t.Errorf("%q: %d columns say that they are sorted", path, n)
		}
	}
	// A click on a heading begins with what matters, and the next one turns it round.
	for path, next := range map[string]string{"": "sort=denied#by", "?sort=denied": "desc=1&amp;sort=denied#by",
		"?sort=name": "desc=1&amp;sort=name#by", "?sort=peak": "desc=1&amp;sort=peak#by"} {
		if page := b.Get("/console/traffic" + path); !page.Has(`href="/console/traffic?` + next + `"`) {
			t.Errorf("%q: no link to %s", path, next)
		}
	}
	if page := b.Get("/console/traffic"); !page.Has(`href="/console/traffic?sort=name#by"`,
		`href="/console/traffic?desc=1&amp;sort=allowed#by"`) {
		t.Error("names begin with the first and numbers with the largest")
	}
}

func TestTraffic_ARowLeadsOn(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for path, links := range map[string][]string{
		"":        {"/console/traffic?by=key&amp;rule=charges-per-user", "/console/rules/1"},
		"?by=key": {"/console/requests?key=user%3A42"},
		"?by=key&rule=charges-per-user": {"/console/keys?key=user%3A42&amp;rule=charges-per-user",
			"/console/requests?key=user%3A42&amp;rule=charges-per-user", "/console/rules/1"},
		"?by=route":                        {"/console/requests?route=POST+%2Fv1%2Fcharges"},
		"?by=node":                         {`href="/console/nodes"`},
		"?by=rule&rule=charges-per-user":   {`class="whole-row" href="/console/rules/1"`},
		"?by=node&rule=charges-per-user":   {"Nodes are counted for all rules together"},
		"?q=CHARGES+per":                   {"1 of 12 rules match", "by=key&amp;rule=charges-per-user"},
		"?q=none-such":                     {"No rule matches the filter", "The filter applies to 12 rows"},
		"?q=%3Cscript%3E&by=key&sort=peak": {"&lt;script&gt;", `name="by" value="key"`, `name="sort" value="peak"`},
	} {
		page := b.Get("/console/traffic" + path)
		if page.Code != http.StatusOK || !page.Has(links...) {
			t.Errorf("%q: %d lacks one of %q", path, page.Code, links)
		}
	}
}

// TestTraffic_BadInputLosesNothing: the page says what is wrong and shows the rest of what the address asks for.
func TestTraffic_BadInputLosesNothing(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleViewer)
	page := b.Get("/console/traffic?by=planet&rule=charges-per-user&sort=peak")
	if page.Code != http.StatusUnprocessableEntity || !page.Has(`role="alert"`,
		"by: must be one of rule, key, route, tenant, node", `value="charges-per-user"`, "whole-row") {
		t.Errorf("a pivot that does not exist: %d", page.Code)
	}
	for _, path := range []string{"?by=planet", "?by=planet&of=series"} {
		if file := b.Get("/console/traffic.csv" + path); file.Code != http.StatusUnprocessableEntity {
			t.Errorf("its CSV: %d", file.Code)
		}
	}
	gone := withFigures(t, func(history.Query) (history.Result, error) {
		return history.Result{}, fmt.Errorf("rule: %w", rules.ErrNotFound)
	})
	page = gone.Get("/console/traffic?rule=nobody")
	if page.Code != http.StatusUnprocessableEntity || !page.Has("no rule has this name", `value="nobody"`, ">–<") {
		t.Errorf("a rule that does not exist: %d", page.Code)
	}
}

func TestTraffic_SaysWhatIsMissing(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	w.Stats.Change(func(s *webtest.Stats) { s.Partial = errors.New("the counters are unavailable, so recent figures") })
	if page := b.Get("/console/traffic"); page.Code != http.StatusOK ||
		!page.Has("Some figures are missing: the counters are unavailable", "data-partial", "whole-row") {
		t.Errorf("a part is missing: %d", page.Code)
	}
	if file := b.Get("/console/traffic.csv"); !strings.Contains(file.Header.Get("Content-Disposition"), "incomplete") {
		t.Errorf("the file is called %s", file.Header.Get("Content-Disposition"))
	}
	w.Stats.Change(func(s *webtest.Stats) { s.Err = rules.ErrUnavailable })
	if page := b.Get("/console/traffic?by=key"); page.Code != http.StatusOK ||
		!page.Has("The figures could not be read", "data-partial", ">–<") || page.HasAny("whole-row", "No requests") {
		t.Errorf("all is missing: %d", page.Code)
	}
	if file := b.Get("/console/traffic.csv"); file.Code != http.StatusServiceUnavailable {
		t.Errorf("the file: %d", file.Code)
	}
}

func TestTraffic_FilesAreThoseOfThePage(t *testing.T) {
	b := withFigures(t, func(q history.Query) (history.Result, error) {
		r := answer(q, hourOf(q, 1, history.Figures{Allowed: 3, Denied: 1, WouldDeny: 2}),
			history.Row{Key: "=cmd|' /C calc'!A0", Allowed: 10, Denied: 5, Peak: -1, Error: 2},
			history.Row{Key: "user:1", Allowed: 1, Peak: 4})
		r.CompleteUntil = q.To.Add(-time.Minute)
		return r, nil
	})
	read := func(path string) [][]string {
		t.Helper()
		file := b.Get("/console/traffic.csv" + path)
		rows, err := csv.NewReader(strings.NewReader(file.Body)).ReadAll()
		if file.Code != http.StatusOK || err != nil || !strings.HasPrefix(file.Header.Get("Content-Type"), "text/csv") ||
			!strings.HasPrefix(file.Header.Get("Content-Disposition"), "attachment") {
			t.Fatalf("%s: %d %v %v", path, file.Code, file.Header, err)
		}
		return rows
	}
	table := read("?by=key&sort=name&desc=1")
	want := []string{"user:1", "1", "0", "0", "0.0042", "0.0000", "4"}
	if len(table) != 3 || !slices.Equal(table[1][:7], want) || table[0][0] != "key" {
		t.Errorf("got %q, want %q", table, want)
	}
	if got := table[2]; got[0] != "'=cmd|' /C calc'!A0" || got[3] != "2" || got[6] != "" {
		t.Errorf("a spreadsheet would run %q", got)
	}
	if rows := read("?by=key&q=USER"); len(rows) != 2 {
		t.Errorf("the filter is lost: %q", rows)
	}
	series := read("?of=series")
	if first := strings.Join(series[1][2:12], ""); len(series) < 60 || first != "" || series[1][12] != "false" {
		t.Errorf("an unknown minute is %q", series[1])
	}
	if got := strings.Join(series[2][1:], " "); got != "60 3 1 0 0 0 0 2 0 0 7 true" {
		t.Errorf("a minute is %q", got)
	}
	if last := series[len(series)-1]; last[12] != "false" {
		t.Errorf("a minute that may grow is %q", last)
	}
}

func TestTraffic_OfManyRulesIsBoundedAndSaysSo(t *testing.T) {
	w := world(t, webtest.Full)
	w.Rules.List = webtest.ManyRules(10_000)
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	page := w.As(access.RoleViewer).Get("/console/traffic")
	if got := len(rowsOf(page.Body)); got != history.MaxRows || !page.Has("100 rules", "There may be more") {
		t.Errorf("%d rows", got)
	}
}

// trafficWeight is the most bytes of the page of traffic on the wire, with every asset.
const trafficWeight = 120_000

var assets = regexp.MustCompile(regexp.QuoteMeta(static.Root) + `[^"]+`)

func TestTraffic_IsLightWithManyRulesAndDays(t *testing.T) {
	w := world(t, webtest.Full)
	w.Rules.List = webtest.ManyRules(10_000)
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleViewer)
	b.Header.Set("Accept-Encoding", "gzip")
	plain := w.As(access.RoleViewer)
	for _, path := range []string{"/console/traffic", "/console/traffic?range=90d"} {
		sum := len(b.Get(path).Body)
		for _, asset := range slices.Compact(slices.Sorted(slices.Values(assets.FindAllString(plain.Get(path).Body, -1)))) {
			sum += len(b.Get(asset).Body)
		}
		if sum > trafficWeight {
			t.Errorf("%s: %d bytes", path, sum)
		}
		t.Logf("%s: %d bytes", path, sum)
	}
}

func TestTraffic_IsLive(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	lines := listen(t, w, "/console/events?"+url.Values{"of": {"traffic"}, "by": {"node"}}.Encode(),
		w.As(access.RoleViewer))
	first, ok := message(lines)
	if !ok || !strings.Contains(first, "#traffic-tiles") || !strings.Contains(first, "10.0.0.2:8080") {
		t.Fatalf("the first message is %q", first)
	}
	if second, _ := message(lines); strings.Contains(second, "hx-partial") {
		t.Error("what did not change is sent again")
	}
	w.Stats.Change(func(s *webtest.Stats) { s.Partial = errors.New("the counters are unavailable") })
	w.Clock.Add(time.Minute)
	for {
		next, ok := message(lines)
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.Contains(next, "the counters are unavailable") {
			return
		}
	}
}
