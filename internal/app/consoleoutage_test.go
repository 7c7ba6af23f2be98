package app

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/testenv"
)

const adminPassword = "long enough for this"

// asAdmin makes the first account of a node and signs it in.
func asAdmin(t *testing.T, n *node) *person {
	t.Helper()
	link := welcomeLink.FindStringSubmatch(n.out.String())
	if link == nil {
		t.Fatalf("the first start printed no link: %s", n.out)
	}
	p := newPerson(t, n)
	form := url.Values{"token": {link[1]}, "name": {"grace"}, "password": {adminPassword}, "repeat": {adminPassword}}
	if status, body := p.post(n.url+"/console/welcome", form); status != http.StatusOK {
		t.Fatalf("the first account: %d %s", status, body)
	}
	return p
}

// shows waits until a page has the status and shows every text.
func (p *person) shows(url string, want int, texts ...*regexp.Regexp) string {
	p.t.Helper()
	var body string
	eventually(p.t, url, func() bool {
		var status int
		status, body = p.get(url)
		missing := ""
		for _, re := range texts {
			if !re.MatchString(body) {
				missing = re.String()
			}
		}
		return status == want && missing == ""
	})
	return body
}

func texts(patterns ...string) []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(patterns))
	for i, s := range patterns {
		out[i] = regexp.MustCompile(`(?s)` + s)
	}
	return out
}

func TestConsole_WithRedisKilledANodeShowsWhatItKnowsItself(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	cfg := onRedis(t, redis.URL())
	cfg.Console = config.Console{Console: true, SessionIdle: time.Hour}
	n := start(t, cfg)
	p := asAdmin(t, n)
	n.create(`{"name":"one","scope":"user","limit":1,"window_ms":86400000,"fail_mode":"closed"}`)
	n.check(`{"user":"before"}`)
	p.shows(n.url+"/console/fail-modes", http.StatusOK, texts(redis.Addr, `badge good">healthy<`)...)
	redis.Kill()
	for range 5 {
		n.check(`{"user":"after"}`)
	}
	body := p.shows(n.url+"/console/fail-modes", http.StatusOK,
		texts(`this page shows only the decisions of this node`, `unknown since`, `badge bad">(tripped|recovering)<`,
			`Decided by fail modes</dt><dd><span class="figure">[1-9]`)...)
	if strings.Contains(body, `badge good">healthy<`) {
		t.Error("a breaker is shown as healthy")
	}
	p.shows(n.url+"/console", http.StatusOK,
		texts(`data-partial`, `unknown since`, `Redis is unreachable`,
			`Degraded</dt><dd><span class="figure">(0\.[1-9]|[1-9])`)...)
	// The closed fail mode denies, and the chart shows that as denied.
	body = p.shows(n.url+"/console/rules/1", http.StatusOK, texts(`data-partial`,
		`[1-9]\d* denied, [1-9]\d* by fail modes \(0 allowed, [1-9]\d* denied\)`, `class="bars bad" data-of="bad" d="M[^"]+"`,
		`class="bars warn" data-of="warn" data-strip d="M[^"]+"`, `data-label="By fail modes"[^>]*>[1-9]\d* \([1-9]\d* denied\)<`,
		`Unknown while Redis is unreachable`)...)
	p.shows(n.url+"/console/hot-keys", http.StatusOK, texts(`Hot keys are unknown`)...)
	if strings.Contains(body, "No requests in this period") {
		t.Error("the page of the rule says that there was no request")
	}
	p.shows(n.url+"/console/denials", http.StatusOK, texts(`denials of this node`, `user:after`)...)
	redis.Restart()
	p.shows(n.url+"/console/fail-modes", http.StatusOK, texts(`badge good">healthy<`)...)
	// The breaker and the reader of the figures notice it each by itself.
	eventually(t, "the overview shows the figures of all nodes again", func() bool {
		status, body := p.get(n.url + "/console")
		return status == http.StatusOK && !strings.Contains(body, "data-partial")
	})
}

func TestConsole_WithPostgresStoppedItsPagesAreServedReadOnly(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	cfg.Console = config.Console{Console: true, SessionIdle: time.Hour}
	n := start(t, cfg)
	p := asAdmin(t, n)
	n.create(`{"name":"one","scope":"user","route":"/v1/one","limit":1,"window_ms":86400000}`)
	other := newPerson(t, n) // signs out during the outage
	signIn := url.Values{"name": {"grace"}, "password": {adminPassword}}
	if status, _ := other.post(n.url+"/console/sign-in", signIn); status != http.StatusOK {
		t.Fatalf("signing in: %d", status)
	}
	p.shows(n.url+"/console", http.StatusOK, texts(`one`)...)
	n.check(`{"user":"u","route":"/v1/one"}`)
	n.check(`{"user":"u","route":"/v1/one"}`)
	stolen := &http.Cookie{}
	at, _ := url.Parse(n.url + "/console")
	for _, c := range other.client.Jar.Cookies(at) {
		if c.Name == "sluice_session" {
			stolen = c
		}
	}
	postgres.Stop()

	frame := []string{`href="/console/fail-modes"`, `The rules database is unreachable`, `grace`}
	for path, want := range map[string]string{
		"/console": "one", "/console/rules": "/v1/one", "/console/rules?q=nothing": "No rule",
		"/console/rules/1": "unavailable while the rules database",
		"/console/denials": "user:u", "/console/explain": "Explain", "/console/fail-modes": "/v1/one",
	} {
		p.shows(n.url+path, http.StatusOK, texts(append(frame, want)...)...)
	}
	for path, want := range map[string]string{"/console/people": "503", "/console/audit": "503",
		"/console/rules/new": "unreachable"} {
		status, body := p.get(n.url + path)
		if path != "/console/rules/new" && status != http.StatusServiceUnavailable || !strings.Contains(body, want) ||
			!strings.Contains(body, frame[0]) {
			t.Errorf("%s: %d without its frame", path, status)
		}
	}
	typed := url.Values{"name": {"typed"}, "description": {"what was typed stays"}}
	if status, body := p.post(n.url+"/console/rules", typed); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "what was typed stays") || !strings.Contains(body, frame[0]) {
		t.Errorf("a change: %d\n%s", status, body)
	}
	if status, body := newPerson(t, n).post(n.url+"/console/sign-in", signIn); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "nobody can sign in") || !strings.Contains(body, `name="password"`) {
		t.Errorf("signing in: %d\n%s", status, body)
	}
	if status, _ := other.post(n.url+"/console/sign-out", url.Values{}); status != http.StatusServiceUnavailable {
		t.Errorf("signing out: %d", status)
	}
	other.client.Jar.SetCookies(at, []*http.Cookie{stolen})
	if _, body := other.get(n.url + "/console"); strings.Contains(body, frame[0]) {
		t.Error("a session that was ended here came back during the outage")
	}

	postgres.Restart()
	p.shows(n.url+"/console/people", http.StatusOK, texts(`grace`)...)
	other.client.Jar.SetCookies(at, []*http.Cookie{stolen})
	if _, body := other.get(n.url + "/console"); strings.Contains(body, frame[0]) {
		t.Error("a session that was ended here came back after the outage")
	}
}
