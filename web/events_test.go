package web_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/webtest"
)

// listen opens a stream as a browser that has signed in does.
func listen(t *testing.T, w *webtest.World, path string, b *webtest.Browser) *bufio.Scanner {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, serve(t, w)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html, text/event-stream")
	for name, value := range b.Cookies() {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	client := &http.Client{Transport: &http.Transport{}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = res.Body.Close()
		client.CloseIdleConnections()
	})
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK ||
		!strings.HasPrefix(got, "text/event-stream") {
		t.Fatalf("got %d %s", res.StatusCode, got)
	}
	if res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("headers %v", res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// message reads up to the next empty line.
func message(lines *bufio.Scanner) (text string, ok bool) {
	var b strings.Builder
	for lines.Scan() {
		if lines.Text() == "" {
			return b.String(), true
		}
		b.WriteString(lines.Text() + "\n")
	}
	return b.String(), false
}

func TestEvents_SendFiguresAsTheyAre(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	lines := listen(t, w, "/console/events", w.As(access.RoleViewer))
	first, ok := message(lines)
	for _, want := range []string{`hx-target="#live-tiles"`, `hx-target="#live-counters"`, "charges-per-user",
		"/console/rules/1"} {
		if !ok || !strings.Contains(first, want) {
			t.Fatalf("the first message lacks %s:\n%s", want, first)
		}
	}
	for line := range strings.Lines(first) {
		if !strings.HasPrefix(line, "data: ") {
			t.Fatalf("a line of the message is %q", line)
		}
	}
	w.Fleet.Change(func(l *history.Live) { l.Rules[0].Minute.Denied = 4321 })
	for {
		next, ok := message(lines)
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.Contains(next, "4,321") {
			return
		}
	}
}

func TestEvents_SendTheStateOfNodes(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	lines := listen(t, w, "/console/events?of=nodes", w.As(access.RoleViewer))
	if first, ok := message(lines); !ok || !strings.Contains(first, `hx-target="#live-nodes"`) ||
		!strings.Contains(first, w.Node.Address) {
		t.Fatalf("the first message is %q", first)
	}
}

func TestEvents_EndWithTheSession(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	lines := listen(t, w, "/console/events?rule=1", w.As(access.RoleViewer))
	if first, ok := message(lines); !ok || !strings.Contains(first, "#minute-denied") {
		t.Fatalf("the first message is %q", first)
	}
	w.Users.Change("vera", func(u *access.User) { u.Disabled = true })
	last := ""
	for {
		next, ok := message(lines)
		if !ok {
			break
		}
		last = next
	}
	if !strings.Contains(last, "event: ended") {
		t.Errorf("the last message is %q, want it to say that the stream ended", last)
	}
}

func TestEvents_WithoutAStreamAreOnePieceOfAPage(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/events"); page.Code != http.StatusOK || !page.Has("<hx-partial", "live-tiles") {
		t.Errorf("got %d", page.Code)
	}
	if page := b.Get("/console/events?rule=99"); page.Code != http.StatusOK ||
		strings.Count(page.Body, "<hx-partial") != 3 ||
		!page.Has(`hx-target="#bell"`, `hx-target="#bell-top"`, `hx-target="#banners"`) {
		t.Errorf("of no rule, only the bells and the warnings: %d %q", page.Code, page.Body)
	}
	if page := w.Browser().Get("/console/events"); page.Code != http.StatusSeeOther {
		t.Errorf("a stranger got %d", page.Code)
	}
}

func TestOverview_MarksNodesThatAreBehindOrSilent(t *testing.T) {
	w := world(t, webtest.Full)
	behind, silent := w.Node.Status, w.Node.Status
	behind.ID, behind.Address, behind.SetVersion, behind.HotKeys = "b", "10.0.0.8:8080", w.Node.SetVersion-1, 3
	silent.ID, silent.Address = "c", "10.0.0.9:8080"
	w.Fleet.Change(func(l *history.Live) {
		l.Nodes = append(l.Nodes, history.NodeLive{Status: behind}, history.NodeLive{Status: silent, Silent: true})
	})
	page := w.As(access.RoleViewer).Get("/console")
	if !page.Has("1 not reporting", "different versions of the rules", "3 keys", "Most denied", "Busiest") {
		t.Error("the overview does not tell")
	}
	page = w.As(access.RoleViewer).Get("/console/nodes")
	if !page.Has(">behind<", ">not reporting<", "different versions of the rules", "10.0.0.9:8080") {
		t.Error("the page of nodes does not tell")
	}
}
