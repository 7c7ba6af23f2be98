package gateways_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"sluice/internal/testenv"
)

// person uses the console of a node as a browser without JavaScript does.
type person struct {
	t      *testing.T
	base   string
	client *http.Client
}

// visit gets a page, or posts a form if there is one.
func (p *person) visit(path string, form url.Values) *html.Node {
	p.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := html.Parse(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s %s: %s\n%s", method, path, res.Status, text(page))
	}
	return page
}

// text is the text of an element.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func attribute(n *html.Node, name string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// shown is the text of the element with an id.
func (p *person) shown(page *html.Node, id string) string {
	p.t.Helper()
	for n := range page.Descendants() {
		if got, _ := attribute(n, "id"); got == id {
			return text(n)
		}
	}
	p.t.Fatalf("the page has no %s:\n%s", id, text(page))
	return ""
}

// links reports whether a page has a link to a path.
func links(page *html.Node, path string) bool {
	for n := range page.Descendants() {
		if to, _ := attribute(n, "href"); n.Data == "a" && to == path {
			return true
		}
	}
	return false
}

// fields are what a browser sends with the form that goes to a path, if nobody touches it.
func (p *person) fields(page *html.Node, action string) url.Values {
	p.t.Helper()
	for form := range page.Descendants() {
		if to, _ := attribute(form, "action"); form.Data != "form" || to != action {
			continue
		}
		values := url.Values{}
		for n := range form.Descendants() {
			name, _ := attribute(n, "name")
			value, _ := attribute(n, "value")
			kind, _ := attribute(n, "type")
			_, checked := attribute(n, "checked")
			switch {
			case name == "" || (kind == "checkbox" || kind == "radio") && !checked:
			case n.Data == "input":
				values.Add(name, value)
			case n.Data == "textarea":
				values.Add(name, text(n))
			case n.Data == "select":
				values.Add(name, chosen(n))
			}
		}
		return values
	}
	p.t.Fatalf("the page has no form for %s:\n%s", action, text(page))
	return nil
}

// chosen is the value of the selected option, or of the first one.
func chosen(list *html.Node) string {
	first, found := "", false
	for n := range list.Descendants() {
		if n.Data != "option" {
			continue
		}
		value, _ := attribute(n, "value")
		if _, selected := attribute(n, "selected"); selected {
			return value
		}
		if !found {
			first, found = value, true
		}
	}
	return first
}

// TestWizard_FromAnEmptyFolderToA429ThroughNginx gets a 429 through nginx. It runs what the page Connect a gateway
// shows: only the fields of the page name the addresses of the test.
func TestWizard_FromAnEmptyFolderToA429ThroughNginx(t *testing.T) {
	testenv.Binary(t, "nginx", "nginx-light", "/usr/sbin/nginx")
	testenv.Binary(t, "curl", "curl")
	addr, clients, a := freeAddr(t), freeAddr(t), startApp(t)
	node := testenv.Start(t, &testenv.Program{
		Path: testenv.Sluice(t), Addr: addr, Env: []string{"SLUICE_STORE_TIMEOUT=5s"},
		Args: []string{"serve", "--listen", addr, "--data-dir", filepath.Join(t.TempDir(), "data")},
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, base: "http://" + addr, client: &http.Client{Jar: jar, Timeout: time.Minute}}
	t.Cleanup(p.client.CloseIdleConnections)

	const welcome = "/console/welcome?token="
	wait(t, "the link for the first account is printed", func() bool { return strings.Contains(node.Log(), welcome) })
	_, secret, _ := strings.Cut(node.Log(), welcome)
	secret = strings.Fields(secret)[0]
	const password = "correct horse battery"
	p.visit("/console/welcome", url.Values{"token": {secret}, "name": {"ada"}, "password": {password},
		"repeat": {password}})
	rule := p.fields(p.visit("/console/rules/new", nil), "/console/rules")
	for name, value := range map[string]string{"name": "per-key", "scope": "apikey", "limit": "5", "window_ms": "1",
		"window_ms.unit": "minute"} {
		rule.Set(name, value)
	}
	p.visit("/console/rules", rule)

	if !links(p.visit("/console", nil), "/console/connect") {
		t.Error("the checklist does not lead to the page")
	}
	form := p.fields(p.visit("/console/connect?gateway=nginx", nil), "/console/connect")
	if form.Get("sluice") != addr || form.Get("header") != "X-Api-Key" || form.Get("name") != "nginx" {
		t.Fatalf("the form begins with %v, and the node listens on %s", form, addr)
	}
	form.Set("clients", clients)
	form.Set("app", a.addr)
	page := p.visit("/console/connect", form)
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(p.shown(page, "text-nginx.conf")), 0o600); err != nil {
		t.Fatal(err)
	}
	// The shell stays until nginx has ended, which the last command has started in the background.
	start := p.shown(page, "text-start") + "trap 'kill -s TERM $!' TERM\nwait $!\nwait $!\nexit 0\n"
	path := "PATH=" + os.Getenv("PATH") + ":/usr/sbin"
	testenv.Start(t, &testenv.Program{Path: "/bin/sh", Args: []string{"-c", start}, Dir: dir, Addr: clients,
		Env: []string{path}})

	waiting := text(p.visit("/console/profiles/nginx", nil))
	if !strings.Contains(waiting, "Waiting for the first request") {
		t.Errorf("the profile does not wait:\n%s", waiting)
	}
	// A machine that is busy may answer too late, and then nginx lets a request pass.
	statuses := ""
	wait(t, "a 429", func() bool {
		try := exec.CommandContext(t.Context(), "/bin/sh", "-c", p.shown(page, "text-try"))
		var failed bytes.Buffer
		try.Stderr = &failed
		out, err := try.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, &failed)
		}
		statuses += string(out)
		return strings.Contains(string(out), "429\n")
	})
	if !strings.HasPrefix(statuses, "200\n200\n200\n200\n200\n") || strings.Trim(statuses, "2049\n") != "" {
		t.Errorf("the statuses are %q", strings.Fields(statuses))
	}
	wait(t, "the profile has seen the first request", func() bool {
		return strings.Contains(text(p.visit("/console/profiles/nginx", nil)), "nginx asks")
	})
	if seen := a.take(); len(seen) != strings.Count(statuses, "200\n") {
		t.Errorf("the application got %d requests, and clients %q", len(seen), strings.Fields(statuses))
	}
}
