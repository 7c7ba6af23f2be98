package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
)

func counting(r rules.Rule, counts string) rules.Rule {
	r.Counts = &counts
	return r
}

func TestDialect_HasTheHeadersAndTheErrorOfTheSDK(t *testing.T) {
	// Of two limits of tokens, the one with the smaller share left is shown.
	tokens := counting(aMinute("tokens", 10), rules.CountsTokens)
	wide := counting(aMinute("wide", 1000), rules.CountsTokens)
	secret, short := counting(aMinute("secret", 4), rules.CountsTokens), perUser("requests", 100)
	secret.Hidden = true
	day := aMinute("day", 2)
	day.Route, day.WindowMS = new("/day"), 86_400_000
	onBothStores(t, nil, []rules.Rule{tokens, wide, secret, short, day}, func(t *testing.T, f *fixture) {
		f.now.Store(epoch + 10_000)
		check := func(dialect, rest string) checkReply {
			return f.check(`{"user":"` + dialect + `","dialect":"` + dialect + `"` + rest + `}`)
		}
		only := func(a checkReply, begin string) map[string]string {
			out := map[string]string{}
			for name, value := range a.Headers {
				if len(name) > len(begin) && name[:len(begin)] == begin || name == "Retry-After" {
					out[name] = value
				}
			}
			return out
		}
		if d := cmp.Diff(map[string]string{"x-ratelimit-limit-tokens": "10", "x-ratelimit-remaining-tokens": "7",
			"x-ratelimit-reset-tokens": "50s", "x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "97",
			"x-ratelimit-reset-requests": "1s"}, only(check("openai", `,"weight":3`), "x-")); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(map[string]string{"anthropic-ratelimit-tokens-limit": "10",
			"anthropic-ratelimit-tokens-remaining": "7", "anthropic-ratelimit-tokens-reset": "2026-11-21T11:21:00Z",
			"anthropic-ratelimit-requests-limit": "100", "anthropic-ratelimit-requests-remaining": "97",
			"anthropic-ratelimit-requests-reset": "2026-11-21T11:20:11Z"},
			only(check("anthropic", `,"weight":3`), "anthropic-")); d != "" {
			t.Error(d)
		}
		for _, dialect := range []string{"openai", "anthropic"} {
			a := check(dialect, `,"weight":2`) // 50 s
			if a.Headers["retry-after-ms"] != "50000" || a.Headers["Retry-After"] != "50" || a.Headers["x-should-retry"] != "" {
				t.Errorf("%s: a short wait: %v", dialect, a.Headers)
			}
			for _, rest := range []string{`,"weight":5`, `,"route":"/day","weight":3`} {
				a = check(dialect, rest)
				if a.Headers["retry-after-ms"] != "" || a.Headers["Retry-After"] != "" || a.Headers["x-should-retry"] != "false" {
					t.Errorf("%s: no wait: %v", dialect, a.Headers)
				}
			}
			check(dialect, `,"route":"/day","weight":1`)
		}
		const message = "Too many requests. Waiting does not help."
		for dialect, want := range map[string]any{
			"openai": map[string]any{"message": message, "type": "insufficient_quota", "code": "insufficient_quota",
				"param": nil},
			"anthropic": map[string]any{"message": message, "type": "rate_limit_error", "code": "rate_limit_exceeded"},
			"mcp":       map[string]any{"message": message, "code": -32000.0},
		} {
			a := check(dialect, `,"weight":5`)
			if d := cmp.Diff(want, a.Body["error"]); d != "" || a.Body["message"] != message || a.Body["status"] != 429.0 {
				t.Errorf("%s: %v %s", dialect, a.Body, d)
			}
			if id, there := a.Body["id"]; (a.Body["jsonrpc"] == "2.0" && there && id == nil) != (dialect == "mcp") {
				t.Errorf("%s: %v", dialect, a.Body)
			}
		}
	})
}

func TestDialect_IsPerCheckOfABatch(t *testing.T) {
	f := newFixture(t, []rules.Rule{aMinute("r", 0)})
	var got struct {
		Results []checkReply `json:"results"`
	}
	f.post("/ratelimit/check/batch", `{"checks":[{"user":"1","dialect":"openai"},{"user":"1"},
		{"key":"k","limit":0,"window_ms":1000,"dialect":"anthropic"}]}`).decode(&got)
	for i, want := range []string{"insufficient_quota", "", "rate_limit_error"} {
		object, _ := got.Results[i].Body["error"].(map[string]any)
		if kind, _ := object["type"].(string); kind != want {
			t.Errorf("%d: %v", i, got.Results[i].Body)
		}
	}
	a := f.post("/ratelimit/reserve", `{"user":"1","dialect":"openai"}`).reply()
	if _, object := a.Body["error"].(map[string]any); !object {
		t.Errorf("reserve: %+v", a)
	}
}

func TestDialect_BadInput(t *testing.T) {
	f := newFixture(t, nil)
	for path, body := range map[string]string{
		"check": `{"user":"1","dialect":"none"}`, "charge": `{"user":"1","dialect":""}`,
		"refund": `{"user":"1","request_id":"1","dialect":"openai"}`, "reserve": `{"user":"1","dialect":1}`,
	} {
		a := f.do(http.MethodPost, "/ratelimit/"+path, body)
		if a.status != 422 || !slices.Equal(a.fields(), []string{"dialect"}) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := f.do(http.MethodPost, "/ratelimit/check", `{"limits":[{"key":"k","limit":1,"window_ms":1,"dialect":"mcp"}]}`)
	if a.status != 400 || !json.Valid([]byte(a.body)) {
		t.Errorf("in a limit: %d %s", a.status, a.body)
	}
}
