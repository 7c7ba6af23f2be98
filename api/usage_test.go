package api

import (
	"context"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/internal/usage"
)

// statements is a Usage with the keys a and b of one period.
type statements struct{}

func (statements) Usage(_ context.Context, q usage.Query) (rows []usage.Row, _ error) {
	for _, r := range []usage.Row{{Key: "{user:a}", Spent: 5, Seen: 9}, {Key: "{user:b}", Spent: 7, Seen: 9}} {
		if r.Period = q.Period; r.Key > q.After && (q.Key == "" || q.Key == r.Key) && len(rows) < q.Most {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (statements) UsagePeriods(context.Context, int64, int) ([]int64, error) {
	return []int64{86_400_000, 0}, nil
}

func (statements) UsageTotals(_ context.Context, _ int64, key string, periods []int64) ([]usage.Total, error) {
	if key != "" {
		return []usage.Total{{Period: periods[0], Keys: 1, Spent: 5}}, nil
	}
	return []usage.Total{{Period: periods[1], Keys: 3, Spent: 30}, {Period: periods[0], Keys: 2, Spent: 12}}, nil
}

// restorer has two pages.
type restorer struct{}

func (restorer) Restore(_ context.Context, from usage.Place, dry bool) (usage.Restored, error) {
	if from.Rule != 0 {
		return usage.Restored{Lost: dry}, nil
	}
	row := usage.Row{Rule: 1, Period: 0, Key: "{user:a}", Spent: 9}
	return usage.Restored{Lost: true, Read: 2, Missing: []usage.Missing{{Row: row, RuleName: "budget", Units: 4}},
		Next: &usage.Place{Lost: 1, Rule: 1, Key: "{user:a}"}}, nil
}

func TestUsageRestore_GoesOnPageByPage(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.UsageRestorer = restorer{} })
	post := func(query string) *answered { return f.do("POST", usageRestorePath+"?"+query, "") }
	for _, tt := range []struct {
		query  string
		status int
		want   string
	}{
		{"", 200, `"lost":true,"read":2,"missing":[{"rule":"budget","period":"1970-01-01T00:00:00.000Z","key":"user:a",` +
			`"spent":9,"units":4}]`},
		{"", 200, `"next_page_token":"eyJsIjoxLCJyIjoxLCJwIjowLCJrIjoie3VzZXI6YX0ifQ"`},
		{"page_token=eyJsIjoxLCJyIjoxLCJwIjowLCJrIjoie3VzZXI6YX0ifQ", 200,
			`{"dry_run":false,"lost":false,"read":0,"missing":[],"next_page_token":""}`},
		{"dry_run=true&page_token=eyJsIjoxLCJyIjoxLCJwIjowLCJrIjoie3VzZXI6YX0ifQ", 200, `"dry_run":true,"lost":true`},
		{"page_token=e30", 422, `"page_token"`},
		{"dry_run=perhaps", 422, `"dry_run"`},
		{"rule=budget", 422, `"rule"`},
	} {
		if res := post(tt.query); res.status != tt.status || !strings.Contains(res.body, tt.want) {
			t.Errorf("%s: %d %s, want %s", tt.query, res.status, res.body, tt.want)
		}
	}
}

func TestUsage_PagesAndFormats(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Usage = statements{} })
	f.do("POST", "/ratelimit/rules", `{"name": "budget", "scope": "user", "algorithm": "fixed_window", "limit": 10, "window_ms": 86400000,
		"keep_periods": 2}`)
	f.do("POST", "/ratelimit/rules", `{"name": "plain", "scope": "user", "limit": 10, "window_ms": 1000}`)
	get := func(query string) *answered { return f.do("GET", usagePath+"?"+query, "") }
	for _, tt := range []struct {
		query  string
		status int
		want   string
	}{
		{"rule=budget&page_size=1", 200, `"key":"user:a","spent":5,"seen_ms":9`},
		{"rule=budget&page_token=e3VzZXI6YX0", 200, `"key":"user:b","spent":7`},
		{"rule=budget&key=user:b", 200, `"key":"user:b","spent":7`},
		{"rule=budget&by=period", 200, `{"period":"1970-01-02T00:00:00.000Z","keys":2,"spent":12},{"period":"1970-01-01`},
		{"rule=budget&format=csv", 200, "user:a,0,5,9\n"},
		{"rule=budget&period=1970-01-01T12:00:00Z", 200, `"period":"1970-01-01T00:00:00.000Z"`},
		{"", 422, `"rule"`},
		{"rule=plain", 422, `"rule"`},
		{"rule=absent", 422, `"rule"`},
		{"rule=budget&period=now", 422, `"period"`},
		{"rule=budget&key=user:*", 422, `"key"`},
		{"rule=budget&by=user", 422, `"by"`},
		{"rule=budget&format=xml", 422, `"format"`},
		{"rule=budget&page_token=%21", 422, `"page_token"`},
		{"rule=budget&page_token=____", 422, `"page_token"`}, // no UTF-8
		{"rule=budget&page_token=AA", 422, `"page_token"`},   // a NUL byte
	} {
		if res := get(tt.query); res.status != tt.status || !strings.Contains(res.body, tt.want) {
			t.Errorf("%s: %d %s, want %s", tt.query, res.status, res.body, tt.want)
		}
	}
	if res := get("rule=budget&page_size=1"); !strings.Contains(res.body, `"next_page_token":"e3VzZXI6YX0"`) {
		t.Errorf("the page is %d %s", res.status, res.body)
	}
}
