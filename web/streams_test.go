package web_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web"
	"sluice/web/webtest"
)

const streamKind = "text/html, text/event-stream"

// ask makes one request for figures as someone who may.
func ask(t *testing.T, url, accept string, b *webtest.Browser) webtest.Page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a stream would not end
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	for name, value := range b.Cookies() {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return webtest.Page{Code: res.StatusCode, Header: res.Header, Body: string(body)}
}

func TestEvents_OneStreamTooManyIsToldToComeBack(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w) + "/console/events"
	b := w.As(access.RoleViewer)
	w.Server.FillStreams(web.MaxStreams - 1)
	if first, ok := message(listen(t, w, "/console/events?rule=1", b)); !ok || !strings.Contains(first, "#minute-denied") {
		t.Fatalf("the last place of %d gave %q", web.MaxStreams, first)
	}
	if page := ask(t, url, streamKind, b); page.Code != http.StatusServiceUnavailable ||
		page.Header.Get("Retry-After") == "" || !page.Has("Too many live pages") {
		t.Errorf("one more got %d %q", page.Code, page.Body)
	}
	if page := ask(t, url+"?once=1", streamKind, b); page.Code != http.StatusOK || !page.Has("live-tiles") {
		t.Errorf("without a stream: %d", page.Code)
	}
	w.Server.FillStreams(-1)
	if first, ok := message(listen(t, w, "/console/events", b)); !ok || !strings.Contains(first, "live-tiles") {
		t.Error("a place that became free is not given away")
	}
}

func TestEvents_GiveTheirPlaceBack(t *testing.T) {
	w := world(t, webtest.Full)
	w.Server.FillStreams(web.MaxStreams - 1)
	b := w.As(access.RoleViewer)
	b.Header.Set("Accept", streamKind)
	for range 3 {
		if page := b.Do(http.MethodHead, "/console/events", nil); page.Code != http.StatusOK {
			t.Fatalf("the last place is lost: %d", page.Code)
		}
	}
}

func TestEvents_RepeatNothing(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	lines := listen(t, w, "/console/events?of=denials&rule=charges-per-user", w.As(access.RoleViewer))
	if first, ok := message(lines); !ok || !strings.Contains(first, `data-denial="0"`) ||
		strings.Contains(first, `data-denial="s0"`) {
		t.Fatalf("the first message is %q", first)
	}
	if second, ok := message(lines); !ok || second != "data:\n" {
		t.Errorf("without news the message is %q", second)
	}
	w.Fleet.Deny(history.Request{ID: "new", Rule: "charges-per-user", Mode: "enforce"})
	for {
		next, ok := message(lines)
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.Contains(next, `data-denial="new"`) {
			return
		}
	}
}

// outage is accounts in a rules database that is unreachable while it is on.
type outage struct {
	*webtest.Users
	on atomic.Bool
}

func (o *outage) GetUser(ctx context.Context, id int64) (access.User, error) {
	if o.on.Load() {
		return access.User{}, rules.ErrUnavailable
	}
	return o.Users.GetUser(ctx, id)
}

func TestEvents_OfferChangesAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	d, users := w.Deps(nil), &outage{Users: w.Users}
	d.Users = users
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleEditor)
	if page := b.Get("/console"); !page.Has(`class="button" href="/console/rules/new"`) {
		t.Fatalf("before: %d %s", page.Code, page.Body)
	}
	users.on.Store(true)
	lines := listen(t, w, "/console/events", b)
	if first, ok := message(lines); !ok || !strings.Contains(first, "Changes are disabled.") ||
		strings.Contains(first, "An editor can do this.") {
		t.Fatalf("in the outage: %s", first)
	}
	if page := b.Get("/console"); !page.Has("disabled until it is back. Then reload this page.") {
		t.Errorf("in the outage: %d", page.Code)
	}
	users.on.Store(false)
	w.Clock.Add(time.Minute)
	for {
		next, ok := message(lines)
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.Contains(next, `class="button" href="/console/rules/new"`) {
			return
		}
	}
}

func TestEvents_TellWhoIsNoLongerSignedIn(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w) + "/console/events"
	for name, b := range map[string]*webtest.Browser{"a stranger": w.Browser(),
		"someone kept out": w.As(access.RoleViewer)} {
		w.Users.Change("vera", func(u *access.User) { u.Disabled = true })
		page := ask(t, url, streamKind, b)
		if page.Code != http.StatusOK || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/event-stream") ||
			page.Body != "event: ended\ndata: session\n\n" {
			t.Errorf("%s: %d %q", name, page.Code, page.Body)
		}
	}
}

// TestJourney_APageWhoseSessionEndedStopsAsking: the stream breaks off, as it does
// when a laptop sleeps, and in the meantime the session has ended.
func TestJourney_APageWhoseSessionEndedStopsAsking(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/console/events" {
			asked.Add(1)
		}
		w.ServeHTTP(out, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	tab := signedIn(t, w, s.URL, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(s.URL+"/console"), chromedp.WaitVisible("#live-tiles"))
	until(t, tab, live)
	w.Users.Change("vera", func(u *access.User) { u.Disabled = true })
	s.CloseClientConnections()
	until(t, tab, `document.querySelector("[data-live-state]").textContent.includes("Signed out")`)
	if n := asked.Load(); n != 2 {
		t.Errorf("the page asked %d times, want the stream and once more", n)
	}
	tab.Forgive() // the browser notes the connection that broke
}

// TestJourney_WithoutAStreamThePageAsksNowAndThen: all streams of the node are
// taken, and later one becomes free.
func TestJourney_WithoutAStreamThePageAsksNowAndThen(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Server.FillStreams(web.MaxStreams)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitVisible("#live-tiles"))
	w.Fleet.Change(func(l *history.Live) { l.Rules[0].Minute.Denied = 4321 })
	until(t, tab, `document.querySelector("#live-denied .number").textContent.includes("4,321")`)
	until(t, tab, `document.querySelector("[data-live-state]").textContent === "Updated every 5 seconds"`)
	w.Server.FillStreams(-web.MaxStreams)
	until(t, tab, `document.querySelector("[data-live-state]").textContent === "Live"`)
	tab.Forgive() // the browser notes the 503
}
