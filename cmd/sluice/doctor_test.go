package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRulesDoctor_PrintsTheFindingsOfEveryPage(t *testing.T) {
	page := func(rule, next string) string {
		return `{"findings":[{"rule":"` + rule + `","finding":"denies_most","text":"Most.","numbers":{"denied":100},` +
			`"since":"2026-11-22T10:00:00Z","link":"/console/traffic?by=key&rule=` + rule + `"}],` +
			`"since":"2026-11-16T10:00:00Z","rules":50,"partial":"Redis is away","next_page_token":"` + next + `"}`
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := page("a", "more")
		if r.URL.Query().Get("page_token") == "more" {
			answer = page("b", "")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer api.Close()
	code, out, errs := sluice(t, "", "rules", "doctor", "--server="+api.URL, "--json")
	var got []map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitDone || len(got) != 2 {
		t.Fatalf("exits %d: %s%s (%v)", code, out, errs, err)
	}
	if got[1]["rule"] != "b" || got[1]["link"] != api.URL+"/console/traffic?by=key&rule=b" ||
		!strings.Contains(errs, "Redis is away") {
		t.Errorf("%v, %s", got[1], errs)
	}
	code, out, _ = sluice(t, "", "rules", "doctor", "--server="+api.URL)
	if code != exitDone || !strings.Contains(out, "a: denies_most, since 2026-11-22T10:00:00Z\n  Most.\n") ||
		!strings.Contains(out, "rules: 100, findings: 2, figures since 2026-11-16T10:00:00Z\n") {
		t.Errorf("exits %d: %s", code, out)
	}
}

func TestRulesDoctor_OfAServer(t *testing.T) {
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	sluice(t, "rules: [{name: a, scope: user, limit: 1, window_ms: 1000}]", "rules", "apply", "--server="+r.url, "-f", "-")
	code, out, errs := sluice(t, "", "rules", "doctor", "--server="+r.url, "--json")
	if code != exitDone || strings.TrimSpace(out) != "[]" {
		t.Errorf("exits %d: %s%s", code, out, errs)
	}
	code, out, _ = sluice(t, "", "rules", "doctor", "--server="+r.url)
	if !strings.Contains(out, "rules: 1, findings: 0,") {
		t.Errorf("exits %d: %s", code, out)
	}
	if code, _, errs = sluice(t, "", "rules", "doctor", "--server="+r.url, "--rule=none"); code != exitError {
		t.Errorf("an unknown rule exits %d: %s", code, errs)
	}
}
