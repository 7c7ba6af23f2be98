package ruleedit_test

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/ruleedit"
	"sluice/web/webtest"
)

func TestPreview_UsesTheRealArithmetic(t *testing.T) {
	const now = 1_700_000_010_000
	draft := new(rules.Rule)
	limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000}
	p := ruleedit.Simulate(limit, nil, 0, "boundary", 100, now, nil, draft)
	if p.AllowedUnits != 20 || p.DeniedUnits != 0 {
		t.Errorf("a fixed window lets %d through across its end, denies %d; want 20 and 0", p.AllowedUnits, p.DeniedUnits)
	}
	limit.Algorithm = limiter.SlidingWindowLog
	p = ruleedit.Simulate(limit, nil, 0, "boundary", 100, now, nil, draft)
	if p.AllowedUnits != 10 || p.DeniedUnits != 10 {
		t.Errorf("a log lets %d through, denies %d; want 10 and 10", p.AllowedUnits, p.DeniedUnits)
	}
	if p = ruleedit.Simulate(limit, nil, 0, "steady", 80, now, nil, draft); p.DeniedUnits != 0 || p.AllowedUnits != 24 {
		t.Errorf("below the limit %d pass, %d are denied; want 24 and 0", p.AllowedUnits, p.DeniedUnits)
	}
	if p = ruleedit.Simulate(limit, nil, 0, "burst", 300, now, nil, draft); p.AllowedUnits != 20 || p.DeniedUnits != 40 {
		t.Errorf("of two bursts %d pass, %d are denied; want 20 and 40", p.AllowedUnits, p.DeniedUnits)
	}
	for _, a := range limiter.Algorithms() {
		l := limiter.Limit{Algorithm: a, Count: 5, Window: 1000}
		if a.Bucketed() {
			l.Burst = 5
		}
		if a == limiter.SlidingWindowBuckets {
			l.Buckets = 60
		}
		p := ruleedit.Simulate(l, nil, 0, "steady", 300, now, nil, draft)
		var drawn, listed int64
		for _, s := range p.Slots {
			drawn += s.Allowed + s.Denied
		}
		for _, s := range p.Rows {
			listed += s.Allowed + s.Denied
		}
		if drawn != 45 || listed != 45 || p.AllowedUnits+p.DeniedUnits != 45 || p.AllowedUnits < 5 || p.DeniedUnits < 5 {
			t.Errorf("%s: %d drawn, %d listed, %d pass and %d are denied of 45", a, drawn, listed, p.AllowedUnits, p.DeniedUnits)
		}
	}
}

func TestYAML_IsTheSameRule(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for _, r := range policies() {
		r.Normalize()
		form := ruleedit.ValuesOf(&r)
		form.Set("is_active", "on")
		r.IsActive = true
		form.Set("do", "yaml")
		form.Set("id", "7")
		form.Set("version", "3")
		page := b.Post("/console/rules/preview", form)
		_, text, _ := strings.Cut(page.Body, "<textarea")
		_, text, _ = strings.Cut(text, ">")
		text, _, _ = strings.Cut(text, "</textarea>")
		text = html.UnescapeString(text)
		if page.Code != http.StatusOK || !page.Has(`name="version" value="3"`, `action="/console/rules/7"`) {
			t.Fatalf("%s: %d", r.Name, page.Code)
		}
		f, err := rulefile.Parse([]byte(text))
		if err != nil || len(rules.Diff(&f.Rules[0], &r)) > 0 {
			t.Fatalf("%s: %v\n%s", r.Name, err, text)
		}
		back := b.Post("/console/rules/preview",
			url.Values{"as": {"yaml"}, "do": {"form"}, "yaml": {text}, "id": {"7"}, "version": {"3"}})
		if back.Code != http.StatusOK || !back.Has(`value="`+r.Name+`"`, `name="version" value="3"`, "Edit as YAML") {
			t.Errorf("%s: back %d", r.Name, back.Code)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const oddMethod = "rules:\n  - {name: odd, scope: user, method: PSOT, limit: 1, window_ms: 1000}\n"

func TestPreview_SaysWhatTheRuleDoes(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Denied = make([]history.Request, 12)
	for i := range w.Fleet.Denied {
		w.Fleet.Denied[i] = history.Request{ID: strconv.Itoa(i), At: webtest.Now.UnixMilli(), Rule: "charges-per-user",
			Key: "user:40", User: "40", Method: "POST", Route: "/v1/charges", Host: "a.example.com",
			Weight: 1}
	}
	b := w.As(access.RoleEditor)
	b.Header.Set("HX-Request", "true")
	page := b.Post("/console/rules/preview", webtest.RuleForm("route", "/v1/charges"))
	if page.Code != http.StatusOK || strings.Contains(page.Body, "<html") ||
		!page.Has("Each user may send 10 POST requests per minute to /v1/charges; the rest are denied.", "allowed",
			"Retry-After:", "exports-per-user", "12 of the last 12 denials", "user:40") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
	for name, tt := range map[string]struct {
		form url.Values
		has  string
	}{
		"of hosts": {webtest.RuleForm("route", "/v1/charges", "host", "*.Example.com"),
			"POST requests per minute to /v1/charges at *.example.com; the rest are denied."},
		"of their denials": {webtest.RuleForm("route", "/v1/charges", "host", "*.example.com"), "12 of the last 12 denials"},
		"of other hosts":   {webtest.RuleForm("route", "/v1/charges", "host", "example.com"), "None of the last 12 denials"},
		"of networks":      {webtest.RuleForm("when", `cidr(ip, "10.0.0.0/8")`), "None of the last 12 denials"},
		"odd method":       {webtest.RuleForm("method", "psot", "limit", ""), "PSOT is not a registered HTTP method"},
		"odd rate": {webtest.RuleForm("algorithm", "gcra", "burst", "5", "limit", "9000000"),
			"The rate of 9,000,000 per minute cannot be reached"},
		"odd, as YAML": {url.Values{"as": {"yaml"}, "yaml": {oddMethod}}, "PSOT is not a registered HTTP method"},
		"elsewhere":    {webtest.RuleForm(), "None of the last 12 denials match."},
		"unfinished":   {url.Values{"scope": {"user"}}, "Enter a scope or a descriptor, a limit and a window"},
		"unnamed":      {webtest.RuleForm("name", ""), "None of the last 12 denials match."},
		"not valid":    {webtest.RuleForm("when", "tier =="), "Correct the errors in the form"},
		"not kept":     {webtest.RuleForm("when", `api_key == "x"`), "not stored with denials"},
		"huge": {webtest.RuleForm("limit", "100000000", "preview.shape", "boundary", "preview.load", "300"),
			"Each request uses"},
		"nothing":       {webtest.RuleForm("limit", "0"), "denied"},
		"strange knobs": {webtest.RuleForm("preview.shape", "<x>", "preview.load", "-5"), "allowed"},
		"on trial":      {webtest.RuleForm("mode", "shadow"), "sends no headers"},
		"jitter":        {webtest.RuleForm("retry_jitter_ms", "2500ms"), "extended by up to 2.5 s"},
		"ban": {webtest.RuleForm("ban.after", "3", "ban.within_ms", "1", "ban.within_ms.unit", "minute", "ban.for_ms", "1",
			"ban.for_ms.unit", "day"), ">1 ban.<"},
		"ban of one call": {webtest.RuleForm("ban.after", "6", "ban.within_ms", "1", "ban.for_ms", "1"),
			"One call can begin a ban: some HTTP clients send a denied request up to 6 times by themselves. " +
				"Ban after at least 7 denials."},
		"leases": {webtest.RuleForm("algorithm", "concurrency", "limit", "2"), "allowed"},
		"queue": {webtest.RuleForm("algorithm", "leaky_queue", "burst", "10", "preview.shape", "burst"),
			"Of the allowed, "},
		"delay": {slowForm("delay.after", "6", "delay.step_ms", "100"), "Of the allowed, 12 wait, up to 400 ms each."},
		"delay and its bound": {slowForm("delay.after", "0", "delay.step_ms", "100", "delay.most_ms", "250ms"),
			"Of the allowed, 30 wait, up to 250 ms each."},
		"delay that is not reached": {slowForm("delay.after", "10", "delay.step_ms", "100"), "15 denied"},
		"delay without a step":      {slowForm("delay.after", "0"), "15 denied"},
		"delay without a beginning": {slowForm("delay.step_ms", "100"), "15 denied"},
		"tarpit":                    {slowForm("tarpit_ms", "2000"), "Each denial waits 2 s."},
		"calendar": {webtest.RuleForm("algorithm", "fixed_window", "window_ms", "", "calendar.every", "month"),
			"calendar month (UTC)"},
		"longest": {webtest.RuleForm("algorithm", "token_bucket", "limit", "1", "window_ms", "315576000000",
			"window_ms.unit", "ms"), "allowed"},
		"shortest": {webtest.RuleForm("limit", "9007199254740991", "window_ms", "1", "window_ms.unit", "ms"), "allowed"},
	} {
		if page := b.Post("/console/rules/preview", tt.form); page.Code != http.StatusOK || !page.Has(tt.has) {
			t.Errorf("%s: %d %s", name, page.Code, page.Body)
		}
	}
	w.Fleet.Denied = []history.Request{{ID: "1", Rule: `"><b>`, Key: "user:<script>", Route: "/v1/exports", Method: "POST",
		User: "u"}}
	if page := b.Post("/console/rules/preview", webtest.RuleForm()); !page.Has("user:&lt;script&gt;") ||
		page.Has("<script>") || page.Has("<b>") {
		t.Errorf("what callers say is not escaped: %s", page.Body)
	}
	w.Fleet.Err = errors.New("away")
	if page := b.Post("/console/rules/preview", webtest.RuleForm()); page.Code != http.StatusOK ||
		!page.Has("Recent denials are unavailable") {
		t.Errorf("without the board: %d", page.Code)
	}
}

// slowForm is a rule of which each of three windows has 10 allowed and 5 denied requests.
func slowForm(more ...string) url.Values {
	form := webtest.RuleForm(more...)
	for name, value := range map[string]string{"algorithm": "fixed_window", "limit": "10", "preview.load": "150"} {
		form.Set(name, value)
	}
	return form
}

// typed is what stands in the text of the YAML tab.
func typed(page webtest.Page) string {
	_, rest, _ := strings.Cut(page.Body, "<textarea")
	_, rest, _ = strings.Cut(rest, ">")
	text, _, _ := strings.Cut(rest, "</textarea>")
	return html.UnescapeString(text)
}

func TestYAML_IsReadAndSaved(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Post("/console/rules/preview",
		webtest.RuleForm("do", "yaml", "limit", "many")); page.Code != http.StatusUnprocessableEntity || !page.Has(
		`value="many"`) {
		t.Errorf("what cannot be read: %d", page.Code)
	}
	if page := b.Post("/console/rules/preview",
		url.Values{"do": {"yaml"}, "scope": {"user"}}); page.Code != http.StatusOK || !strings.Contains(typed(page),
		"scope: user") {
		t.Errorf("an unfinished rule: %d", page.Code)
	}
	if page := b.Post("/console/rules/preview",
		url.Values{"as": {"yaml"}, "do": {"form"},
			"yaml": {"rules: [{}]"}}); page.Code != http.StatusUnprocessableEntity || typed(page) != "rules: [{}]" {
		t.Errorf("bad YAML: %d", page.Code)
	}
	page := b.Post("/console/rules", url.Values{"as": {"yaml"},
		"yaml": {"rules:\n  - {name: from-text, scope: user, limit: 3, window_ms: 1000}\n"}})
	if page.Code != http.StatusSeeOther || w.Rules.Named("from-text") == nil {
		t.Errorf("saving text: %d", page.Code)
	}
}

func TestEditor_AddsRows(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	page := b.Post("/console/rules/preview", webtest.RuleForm("do", "tier", "tiers[0].name", "a", "tiers[2].name", "b"))
	if !page.Has(`name="tiers[1].name" type="text" value="b"`, `name="tiers[4].name"`) ||
		page.Has(`name="tiers[5].name"`) {
		t.Error("more tiers are not there")
	}
	page = b.Post("/console/rules/preview", webtest.RuleForm("do", "window", "schedule.windows[0].days", "sat"))
	if !page.Has(`name="schedule.windows[3].from"`, `value="sat" checked`) {
		t.Error("more windows are not there")
	}
}

var allowedCount = regexp.MustCompile(`([0-9]+) allowed`)

func TestPreview_ShowsWhatAThrottleLetsThrough(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	passed := func(change ...string) int {
		page := b.Post("/console/rules/preview",
			webtest.RuleForm(append([]string{"preview.shape", "burst", "preview.load", "300"}, change...)...))
		found := allowedCount.FindStringSubmatch(page.Body)
		if found == nil {
			t.Fatalf("%v: %d", change, page.Code)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if hard, soft := passed(), passed("throttle", "soft", "soft_percent", "50"); hard != 20 || soft != 30 {
		t.Errorf("of two bursts a limit of 10 admits %d, with half as much more %d; want 20 and 30", hard, soft)
	}
}

func TestPreview_DescribesValidRulesOnly(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	const correct = "Correct the errors in the form to see what the rule does."
	form := url.Values{"name": {"envoy"}, "kind": {"descriptor"}, "descriptor.domain": {"web"},
		"descriptor.entries": {"path~/pay"}, "limit": {"5"}, "window_ms": {"1"}, "window_ms.unit": {"minute"}}
	if page := b.Post("/console/rules/preview", form); !page.Has(correct) || page.Has("may send 5 requests") {
		t.Error("a pattern without * is described")
	}
	form.Set("descriptor.entries", "path~/pay*")
	if page := b.Post("/console/rules/preview", form); page.Has(correct) || !page.Has("may send 5 requests") {
		t.Error("a valid rule is not described")
	}
	form = url.Values{"name": {"office"}, "kind": {"facts"}, "scope": {"ip"}, "limit": {"5"}, "window_ms": {"1"},
		"window_ms.unit": {"minute"}, "when": {`ip == "10.0.0.0/8"`}}
	if page := b.Post("/console/rules/preview", form); !page.Has(correct) || page.Has("may send 5 requests") {
		t.Error("a condition that is refused is described")
	}
	form.Set("when", `cidr(ip, "10.0.0.0/8")`)
	if page := b.Post("/console/rules/preview", form); page.Has(correct) || !page.Has("may send 5 requests") {
		t.Error("a condition with a network is not described")
	}
}

// The editor says before which change of the algorithm loses what was spent.
func TestPreview_SaysWhatAnEditOfTheAlgorithmLoses(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for _, tt := range []struct {
		id, to string
		loses  bool
	}{{"1", "concurrency", true}, {"1", "token_bucket", false}, {"", "concurrency", false}} {
		page := b.Post("/console/rules/preview", webtest.RuleForm("algorithm", tt.to, "id", tt.id))
		if page.Code != 200 || page.Has("What was spent so far no longer counts") != tt.loses {
			t.Errorf("%+v: %d\n%s", tt, page.Code, page.Body)
		}
	}
}

func TestPreview_ShowsUnprintableTextOfACallerAsHex(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Denied = []history.Request{{ID: "1", Rule: "exports", Key: "user:u", Route: "/v1/exports",
		Method: "POST", User: "u"}}
	b := w.As(access.RoleEditor)
	form := webtest.RuleForm("route", "/v1/exports/*", "method", "")
	w.Fleet.Denied[0].Route = "/v1/exports/\x1b[31m\r\u202e"
	page := b.Post("/console/rules/preview", form)
	if page.Code != http.StatusOK || !page.Has("POST /v1/exports/%1B[31m%0D%E2%80%AE by exports,") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
}
