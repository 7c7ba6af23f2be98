package api

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/internal/history/incident"
	"sluice/rules"
)

// known is an IncidentLister that remembers the query.
type known struct {
	asked incident.Query
	all   []incident.Incident
	err   error
}

func (s *known) Incidents(_ context.Context, q incident.Query) ([]incident.Incident, error) {
	s.asked = q
	return s.all, s.err
}

func withIncidents(t testing.TB, s IncidentLister) *fixture {
	return newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Incidents = s })
}

func outage() incident.Incident {
	return incident.Incident{
		ID: "n-7", Kind: incident.Breaker, Key: "redis_unavailable", Begin: instantOf("2026-11-23T00:05:52Z"),
		End: instantOf("2026-11-23T00:06:40Z"), Updated: instantOf("2026-11-23T00:06:41Z"),
		Node: "10.0.0.1:8080", NodeID: "n", Nodes: []string{"10.0.0.1:8080", "10.0.0.2:8080"}, Server: "10.0.0.9:6379",
		Cause: "=connection refused", Opened: 2, Merged: 1,
		Total: incident.Rule{Open: 1, Local: 620, Closed: 14, Denied: 31},
		Rules: []incident.Rule{{Rule: "a", Local: 600, Denied: 9}, {Rule: "b", Local: 20, Closed: 14, Denied: 22}},
	}
}

func TestIncidents_ExactAnswer(t *testing.T) {
	s := &known{all: []incident.Incident{outage()}}
	f := withIncidents(t, s)
	const before = `{"incidents":[{"id":"n-7","kind":"breaker","key":"redis_unavailable","state":"ended","begin":"2026-11-23T00:05:52Z",` +
		`"end":"2026-11-23T00:06:40Z","updated":"2026-11-23T00:06:41Z","node":"10.0.0.1:8080","node_id":"n",` +
		`"nodes":["10.0.0.1:8080","10.0.0.2:8080"],"server":"10.0.0.9:6379","cause":"=connection refused","opened":2,"merged":1,` +
		`"total":{"open":1,"local":620,"closed":14,"denied":31},"rules":[`
	const a, b = `{"rule":"a","open":0,"local":600,"closed":0,"denied":9}`,
		`{"rule":"b","open":0,"local":20,"closed":14,"denied":22}`
	for query, want := range map[string]string{"": before + a + "," + b + "]}]}\n", "rule=b": before + b + "]}]}\n"} {
		if got := f.do(http.MethodGet, "/ratelimit/incidents?"+query, "").want(http.StatusOK); got.body != want {
			t.Errorf("%s: %s", query, cmp.Diff(want, got.body))
		}
	}
	s.all, s.err = nil, fmt.Errorf("reading: %w", rules.ErrUnavailable)
	got := f.do(http.MethodGet, "/ratelimit/incidents", "").want(http.StatusOK)
	if want := `{"incidents":[],"partial":"the rules database is unavailable`; !strings.HasPrefix(got.body, want) {
		t.Errorf("got %s", got.body)
	}
	if got := f.do(http.MethodGet, "/ratelimit/incidents?format=csv", ""); got.header.Get("Sluice-Partial") == "" {
		t.Error("the file does not say that it is partial")
	}
}

func TestIncidents_States(t *testing.T) {
	for want, edit := range map[string]func(*incident.Incident){
		"running": func(in *incident.Incident) { in.End = time.Time{} },
		"ended":   func(*incident.Incident) {},
		"stopped": func(in *incident.Incident) { in.Stopped = true },
		"lost":    func(in *incident.Incident) { in.End, in.Lost = time.Time{}, true },
	} {
		in := outage()
		in.Server = ""
		edit(&in)
		var got incidentPage
		withIncidents(t, &known{all: []incident.Incident{in}}).do(http.MethodGet, "/ratelimit/incidents", "").decode(&got)
		first := got.Incidents[0]
		if first.State != want || (first.End == nil) != in.End.IsZero() || first.Server != nil {
			t.Errorf("%s: %+v", want, first)
		}
	}
}

func TestIncidents_ManyRulesAreAddedUp(t *testing.T) {
	in := outage()
	in.Rules = []incident.Rule{{Rule: incident.OtherRules, Open: 1}}
	for i := range shownRules + 5 {
		in.Rules = append(in.Rules, incident.Rule{Rule: fmt.Sprint("r", i), Open: 1})
	}
	var got incidentPage
	withIncidents(t, &known{all: []incident.Incident{in}}).do(http.MethodGet, "/ratelimit/incidents", "").decode(&got)
	list := got.Incidents[0].Rules
	if last := list[len(list)-1]; len(list) != shownRules+1 || last.Rule != incident.OtherRules || last.Open != 6 {
		t.Errorf("%d rules, the last %+v", len(list), last)
	}
}

func TestIncidents_CSV(t *testing.T) {
	running := outage()
	running.ID, running.End, running.Server, running.Rules = "n-8", time.Time{}, "", nil
	a := withIncidents(t, &known{all: []incident.Incident{outage(), running}}).do(http.MethodGet,
		"/ratelimit/incidents?format=csv", "").want(http.StatusOK)
	got, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	line := func(rest ...string) []string {
		return append([]string{"n-7", "breaker", "redis_unavailable", "ended", "2026-11-23T00:05:52Z", "2026-11-23T00:06:40Z",
			"2026-11-23T00:06:41Z", "10.0.0.1:8080", "n", "10.0.0.1:8080, 10.0.0.2:8080", "10.0.0.9:6379",
			"'=connection refused", "2", "1"}, rest...)
	}
	last := line("", "1", "620", "14", "31")
	last[0], last[3], last[5], last[10] = "n-8", "running", "", ""
	want := [][]string{incident.Header, line("", "1", "620", "14", "31"), line("a", "0", "600", "0", "9"),
		line("b", "0", "20", "14", "22"), last}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestIncidents_Queries(t *testing.T) {
	month := time.UnixMilli(epoch).UTC().Add(-incident.Kept)
	for query, want := range map[string]incident.Query{
		"":                        {},
		"from=&to=&node=&rule=":   {},
		"node=10.0.0.1:80&rule=r": {Node: "10.0.0.1:80", Rule: "r"},
		"from=2026-11-21T09:00:00Z&to=2026-11-21T11:00:00%2B01:00": {From: instantOf("2026-11-21T09:00:00Z"),
			To: instantOf("2026-11-21T10:00:00Z")},
		"to=2026-11-21T09:00:00Z": {From: month, To: instantOf("2026-11-21T09:00:00Z")},
	} {
		s := &known{}
		withIncidents(t, s).do(http.MethodGet, "/ratelimit/incidents?"+query, "").want(http.StatusOK)
		if d := cmp.Diff(want, s.asked); d != "" {
			t.Errorf("%s (-want +got):\n%s", query, d)
		}
	}
	f := withIncidents(t, incident.Unknown{})
	for query, fields := range map[string][]string{
		"from=x&to=y&rule=A&format=z":                       {"format", "from", "rule", "to"},
		"from=2026-11-21T09:00:00Z&to=2026-11-21T09:00:00Z": {"to"},
		"to=2020-11-21T09:00:00Z":                           {"to"},
		"step=day":                                          {"step"},
		"node=a&node=b":                                     {"node"},
	} {
		if a := f.do(http.MethodGet, "/ratelimit/incidents?"+query, "").want(422); !slices.Equal(a.fields(), fields) {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}

// Whatever the parameters, the answer is below 500 and as documented.
func TestIncidents_AnyParameters(t *testing.T) {
	f := withIncidents(t, incident.Unknown{})
	rapid.Check(t, func(rt *rapid.T) {
		values := url.Values{}
		for _, name := range []string{"rule", "node", "format", "from", "to"} {
			value := rapid.OneOf(rapid.SampledFrom([]string{"", "csv", "json", "r", "1970-01-01T00:00:00Z",
				"9999-12-31T23:59:59-23:59"}), rapid.String())
			for _, v := range rapid.SliceOfN(value, 0, 2).Draw(rt, name) {
				values.Add(name, v)
			}
		}
		fuzzPost(t, f, http.MethodGet, "/ratelimit/incidents?"+values.Encode(), "")
	})
}
