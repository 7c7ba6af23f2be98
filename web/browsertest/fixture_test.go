package browsertest_test

import (
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"sluice/internal/access"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// chromium is the one browser of this test binary; the first test that needs it
// starts it, and binary closes it after the last.
var chromium = sync.OnceValues(browsertest.Start)

type binary struct{ m *testing.M }

func (b binary) Run() int {
	code := b.m.Run()
	if c, err := chromium(); err == nil {
		c.Close()
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(binary{m}) }

// site is a console that a browser reaches.
type site struct {
	*webtest.World
	url string
}

func serve(t *testing.T, kind webtest.Kind, prepare func(*webtest.World)) *site {
	t.Helper()
	w, err := webtest.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(w)
	}
	s := httptest.NewServer(w)
	t.Cleanup(func() {
		s.CloseClientConnections() // streams never end by themselves
		s.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{w, s.URL}
}

// tab is a window in which the account with a role has signed in; "" is nobody.
// It fails the test on whatever its pages complain about.
func (s *site) tab(t *testing.T, role access.Role) *browsertest.Tab {
	t.Helper()
	b, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range tab.Complaints() {
			t.Errorf("the page complains: %s", c)
		}
		tab.Close()
	})
	try(t, tab.Show(1280, 800, false))
	if cookies := s.As(role).Cookies(); len(cookies) > 0 {
		try(t, tab.SetCookies(s.url, cookies))
	}
	return tab
}

// tabs are windows that tests use one after the other.
type tabs struct {
	free chan *browsertest.Tab
	// prepare makes a new one ready.
	prepare func(*browsertest.Tab) error
}

// checked tabs can tell whether a page is accessible; in unguarded ones pages have
// no policy, and the canary is known.
var (
	checked   = tabs{make(chan *browsertest.Tab, 8), (*browsertest.Tab).Checker}
	unguarded = tabs{make(chan *browsertest.Tab, 8), func(tab *browsertest.Tab) error { return tab.Canary(true) }}
)

// take is a window like that of tab, which another test may have used before; done
// leaves it to the next.
func (s *site) take(t *testing.T, from *tabs, role access.Role) (tab *browsertest.Tab, done func()) {
	t.Helper()
	select {
	case tab = <-from.free:
	default:
		b, err := chromium()
		try(t, err)
		tab, err = b.Open()
		try(t, err)
		try(t, from.prepare(tab))
	}
	try(t, tab.Show(1280, 800, false))
	if role != "" {
		try(t, tab.SetCookies(s.url, s.As(role).Cookies()))
	}
	return tab, func() {
		for _, c := range tab.Complaints() {
			t.Errorf("the page complains: %s", c)
		}
		if tab.Reuse() == nil {
			select {
			case from.free <- tab:
				return
			default:
			}
		}
		tab.Close()
	}
}

// show opens a page of the gallery.
func (s *site) show(t *testing.T, tab *browsertest.Tab, shown *webtest.Shown) {
	t.Helper()
	s.Clock.Add(shown.Later)
	if shown.Form == nil {
		try(t, tab.Go(s.url+s.Fill(shown.Path)))
		return
	}
	try(t, tab.Go(s.url+"/console/sign-in"))
	form := map[string][]string{}
	for name, values := range shown.Form {
		for _, v := range values {
			form[name] = append(form[name], s.Fill(v))
		}
	}
	try(t, tab.Send(s.Fill(shown.Path), form))
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func steps(t *testing.T, tab *browsertest.Tab, all ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, s := range all {
		if err := chromedp.Do(tab.Ctx, s); err != nil {
			where, _ := chromedp.Run(tab.Ctx, chromedp.Location())
			t.Fatalf("step %d at %s: %v", i+1, where, err)
		}
	}
}

func value[T any](t *testing.T, tab *browsertest.Tab, expression string) T {
	t.Helper()
	v, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}
