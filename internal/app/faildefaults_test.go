package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestFailDefaults_OfNewRulesFromEverySide(t *testing.T) {
	t.Parallel()
	cfg := withConsole(t)
	cfg.FailDefaults = "POST,PUT,DELETE=closed;/payments*=local"
	n := start(t, cfg)
	p := newPerson(t, n)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
		"password": {"long enough for this"}, "repeat": {"long enough for this"}})
	modeOf := func(path string) any {
		t.Helper()
		_, got := n.send(http.MethodGet, path, "")
		return got["fail_mode"]
	}
	is := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}

	n.create(`{"name":"a","scope":"user","method":"post","limit":1,"window_ms":1000}`)
	n.create(`{"name":"b","scope":"user","method":"POST","limit":1,"window_ms":1000,"fail_mode":"open"}`)
	is("left out", modeOf("/ratelimit/rules/1"), "closed")
	is("given", modeOf("/ratelimit/rules/2"), "open")
	n.send(http.MethodPut, "/ratelimit/rules/2", `{"name":"b","scope":"user","method":"POST","limit":2,"window_ms":1000}`)
	is("a rule that is there, replaced", modeOf("/ratelimit/rules/2"), "open")
	n.send(http.MethodPatch, "/ratelimit/rules/2", `{"fail_mode":null}`)
	is("set to its default", modeOf("/ratelimit/rules/2"), "closed")
	n.send(http.MethodPatch, "/ratelimit/rules/2", `{"fail_mode":"open","method":"PUT"}`)
	is("edited", modeOf("/ratelimit/rules/2"), "open")

	const file = `{"rules":[{"name":"c","scope":"user","route":"/payments/{id}","limit":1,"window_ms":1000},
		{"name":"b","scope":"user","method":"PUT","limit":2,"window_ms":1000}]}`
	_, plan := n.send(http.MethodPost, "/ratelimit/rules/import?dry_run=true", file)
	modes, _ := plan["fail_modes"].([]any)
	if len(modes) != 1 || modes[0].(map[string]any)["fail_mode"] != "local" ||
		modes[0].(map[string]any)["from"] != "from SLUICE_FAIL_DEFAULTS, /payments*=local" {
		t.Errorf("the plan says %v", plan)
	}
	n.send(http.MethodPost, "/ratelimit/rules/import", file)
	is("of a file", modeOf("/ratelimit/rules/3"), "local")
	_, plan = n.send(http.MethodPost, "/ratelimit/rules/import?dry_run=true", file)
	if len(plan["create"].([]any))+len(plan["update"].([]any)) != 0 {
		t.Errorf("the same file again would change %v", plan)
	}

	form := url.Values{"name": {"d"}, "scope": {"user"}, "route": {"/payments"}, "method": {"DELETE"}, "limit": {"1"},
		"window_ms": {"1"}, "window_ms.unit": {"day"}, "is_active": {"on"}, "fail_mode": {""}}
	const said = "denied: fail_mode closed (from SLUICE_FAIL_DEFAULTS, POST,PUT,DELETE=closed)."
	if _, body := p.post(n.url+"/console/rules/preview", form); !strings.Contains(body, said) {
		t.Error("the preview does not say what the rule gets")
	}
	if _, body := p.get(n.url + "/console/rules/new"); !strings.Contains(body, "as this server is set up") {
		t.Error("the editor of a new rule does not offer it")
	}
	p.post(n.url+"/console/rules", form)
	is("of the form", modeOf("/ratelimit/rules/4"), "closed")
	if _, body := p.get(n.url + "/console/rules/4/edit"); strings.Contains(body, "as this server is set up") {
		t.Error("the editor of a stored rule offers it")
	}

	exported := n.text("/ratelimit/rules/export")
	if got := strings.Count(exported, "fail_mode: "); got != 4 {
		t.Errorf("%d of 4 exported rules have their fail mode:\n%s", got, exported)
	}
}
