package app

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/testenv"
)

// withConsole are the usual settings with the console on.
func withConsole(t *testing.T) config.Serve {
	t.Helper()
	cfg := settings(t)
	cfg.Console = config.Console{Console: true, SessionIdle: time.Hour}
	return cfg
}

var welcomeLink = regexp.MustCompile(`http://\S+/console/welcome\?token=(\S+)`)

// person is a browser of someone who follows redirects.
type person struct {
	t      *testing.T
	client *http.Client
	n      *node
}

func newPerson(t *testing.T, n *node) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{t, &http.Client{Jar: jar, Transport: n.client.Transport}, n}
}

func (p *person) read(res *http.Response, err error) (int, string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func (p *person) get(url string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.n.token != "" && strings.HasPrefix(req.URL.Path, "/ratelimit/") { // the API takes no cookie
		req.Header.Set("Authorization", "Bearer "+p.n.token)
	}
	return p.read(p.client.Do(req))
}

func (p *person) post(url string, form url.Values) (int, string) {
	p.t.Helper()
	return p.read(p.client.PostForm(url, form)) //nolint:noctx // the server is the test's own
}

func TestConsole_FirstStartLetsInOnceAndSessionsOutliveARestart(t *testing.T) {
	t.Parallel()
	cfg := withConsole(t)
	cfg.Storage, cfg.Listen = emptySettings(t).Storage, testenv.FreeAddr(t)
	n := start(t, cfg)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	if link == nil {
		t.Fatalf("the first start printed no link: %s", n.out)
	}
	p := newPerson(t, n)
	if status, body := p.get(n.url + "/"); status != http.StatusOK || !strings.Contains(body, "No account exists yet") {
		t.Errorf("/ led to %d", status)
	}
	form := url.Values{"token": {link[1]}, "name": {"grace"}, "password": {"long enough for this"},
		"repeat": {"long enough for this"}}
	if status, body := p.post(n.url+"/console/welcome", form); status != http.StatusOK ||
		!strings.Contains(body, "Welcome, grace") {
		t.Fatalf("the first account: %d", status)
	}
	n.create(`{"name":"one","scope":"user","limit":1,"window_ms":86400000}`)
	if status, body := p.get(n.url + "/console/rules"); status != http.StatusOK ||
		!strings.Contains(body, "1 per day per user") {
		t.Errorf("rules: %d", status)
	}
	n.stop()

	n = start(t, cfg)
	if welcomeLink.MatchString(n.out.String()) || !strings.Contains(n.out.String(), "/console") {
		t.Errorf("the second start printed %s", n.out)
	}
	if status, body := p.get(n.url + "/console"); status != http.StatusOK || !strings.Contains(body, "grace") ||
		!strings.Contains(body, "Overview") {
		t.Errorf("after a restart: %d", status)
	}
	if _, err := DisableUser(t.Context(), cfg.Storage, "grace", "test"); err == nil ||
		!strings.Contains(err.Error(), "last admin") {
		t.Errorf("disabling the last admin: %v", err)
	}
	if _, err := SetPassword(t.Context(), cfg.Storage, "grace", "another long password", "test"); err != nil {
		t.Fatal(err)
	}
	if _, body := p.get(n.url + "/console"); !strings.Contains(body, "Sign in") {
		t.Error("a new password left the session open")
	}
	if _, body := p.post(n.url+"/console/sign-in",
		url.Values{"name": {"grace"}, "password": {"another long password"}}); !strings.Contains(body, "Overview") {
		t.Error("the new password does not let in")
	}
}

func TestConsole_CanBeLeftOut(t *testing.T) {
	t.Parallel()
	n := standing(t)
	if status, _ := n.send("GET", "/console", ""); status != http.StatusNotFound {
		t.Errorf("/console answered %d", status)
	}
	if strings.Contains(n.out.String(), "/console") {
		t.Errorf("greeting: %s", n.out)
	}
}

func TestCreateUser_RefusesWeakPasswords(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	if _, err := CreateUser(t.Context(), cfg.Storage,
		NewUser{Name: "ada", Role: access.RoleAdmin, Password: "short"}); err == nil {
		t.Error("a short password was taken")
	}
	if _, err := CreateUser(t.Context(), cfg.Storage,
		NewUser{Name: "ada", Role: access.RoleAdmin, Password: "long enough for this"}); err != nil {
		t.Error(err)
	}
	if list, err := Users(t.Context(), cfg.Storage); err != nil || len(list) != 1 || list[0].Name != "ada" {
		t.Errorf("list %v, %v", list, err)
	}
}
