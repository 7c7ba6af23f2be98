package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/history/incident"
	"sluice/internal/testenv"
	"sluice/web/browsertest"
)

// The first page answers whether somebody is denied who should not be: a flood, a wrong edit and an outage are played
// with real traffic, and the first screen says who is denied, why and since when. Two clicks undo it.
func TestAttention_PlayedInABrowser(t *testing.T) {
	t.Parallel()
	b, err := browsertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	t.Run("a flood and a wrong edit", func(t *testing.T) {
		t.Parallel()
		n := start(t, withConsole(t))
		w := overviewAt(t, b, n)
		floodIsBlocked(w, n)
		wrongEditIsRolledBack(w, n)
	})
	t.Run("an outage", func(t *testing.T) {
		t.Parallel()
		redis := testenv.Redis(t)
		cfg := withConsole(t)
		cfg.RedisURL.Value, cfg.StoreTimeout = redis.URL(), 8*deadline
		n := start(t, cfg)
		outageIsNamed(overviewAt(t, b, n), n, redis)
	})
}

// overviewAt opens the first page of a node as its first administrator.
func overviewAt(t *testing.T, b *browsertest.Browser, n *node) *window {
	t.Helper()
	w := openWindow(t, b)
	if err := w.Show(1440, 900, false); err != nil {
		t.Fatal(err)
	}
	w.do(
		chromedp.Navigate(welcomeLink.FindString(n.out.String())), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "grace"), chromedp.SendKeys("#f-password", adminPassword),
		chromedp.SendKeys("#f-repeat", adminPassword+kb.Enter), chromedp.WaitVisible("#live-attention"),
	)
	w.until(`document.querySelector("[data-live]").dataset.state === "live"`)
	return w
}

// firstScreenSays waits until a finding on the first screen matches a regular expression.
func (w *window) firstScreenSays(words string) {
	w.t.Helper()
	w.until(`scrollTo(0, 0) ?? [...document.querySelectorAll("#live-attention .remark")].some(e =>
		new RegExp(` + strconv.Quote(words) + `).test(e.innerText.replace(/\s+/g, " ")) &&
		e.getBoundingClientRect().bottom <= innerHeight)`)
}

// pressing asks a node for the same requests over and over until it is stopped.
func pressing(n *node, bodies ...string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			n.check(bodies[i%len(bodies)])
			<-tick.C
		}
	})
	return func() { cancel(); wg.Wait() }
}

// floodIsBlocked plays one key that makes most denials of a rule. It is blocked with two clicks, and then let pass for
// an hour with two more.
func floodIsBlocked(w *window, n *node) {
	w.t.Helper()
	rule := n.create(`{"name":"charges-per-user","scope":"user","route":"/v1/charges","limit":5,"window_ms":86400000}`)
	const flood = `{"user":"flood-9","route":"/v1/charges"}`
	n.has(1, flood)
	stop := pressing(n, flood, flood, flood, `{"user":"u1","route":"/v1/charges"}`)
	defer stop()
	w.firstScreenSays(`user:flood-9 makes [6-9]\d% of the denials of charges-per-user since .* \([\d.,]+/s\)`)
	w.until(`[...document.querySelectorAll("#live-denied-keys tbody tr")].some(e =>
		/user:flood-9 charges-per-user [6-9]\d%/.test(e.innerText.replace(/\s+/g, " ")) &&
		e.getBoundingClientRect().bottom <= innerHeight)`)

	w.do(chromedp.Click(`//*[@id="live-attention"]//a[text()="Block"]`), chromedp.WaitVisible("#f-key"),
		chromedp.Click("main form .button.primary"), chromedp.WaitVisible("[data-flash]"))
	overrides := fmt.Sprintf("/ratelimit/rules/%v/overrides", rule["id"])
	_, doc := n.send(http.MethodGet, overrides, "")
	list, _ := doc["overrides"].([]any)
	if one, _ := firstOf(list).(map[string]any); len(list) != 1 || one["key"] != "user:flood-9" || one["blocked"] != true {
		w.t.Fatalf("after Block and Save: %v", doc)
	}

	w.do(chromedp.Navigate(n.url+"/console"), chromedp.WaitVisible("#live-attention"))
	w.firstScreenSays(`user:flood-9 makes`)
	w.do(chromedp.Click(`//*[@id="live-attention"]//a[text()="Raise for an hour"]`), chromedp.WaitVisible("#f-limit"))
	if !w.is(`/This key has an override: blocked/.test(document.querySelector("main").innerText)`) {
		w.t.Errorf("the form says %s", w.text("main"))
	}
	w.do(chromedp.Click("main form .button.primary"), chromedp.WaitVisible("[data-flash]"))
	_, doc = n.send(http.MethodGet, overrides, "")
	list, _ = doc["overrides"].([]any)
	one, _ := firstOf(list).(map[string]any)
	if len(list) != 1 || one["blocked"] == true || one["limit"] != 10.0 || one["expires_at"] == nil {
		w.t.Fatalf("after Raise and Save: %v", doc)
	}
}

func firstOf(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// wrongEditIsRolledBack plays an edit that cuts a limit. It is rolled back with two clicks.
func wrongEditIsRolledBack(w *window, n *node) {
	w.t.Helper()
	rule := n.create(`{"name":"search-per-user","scope":"user","route":"/v1/search","limit":100000,"window_ms":86400000}`)
	path := fmt.Sprintf("/ratelimit/rules/%v", rule["id"])
	var bodies []string
	for i := range 10 {
		bodies = append(bodies, fmt.Sprintf(`{"user":"reader-%d","route":"/v1/search"}`, i))
	}
	n.has(1, bodies[0])
	stop := pressing(n, bodies...)
	defer stop()
	eventually(w.t, "what was denied before the edit is known", func() bool {
		seconds := 0
		for _, p := range n.figures(url.Values{"rule": {"search-per-user"}, "step": {"second"}}).Series[0].Points {
			if p[1] != nil && *p[1] > 0 {
				seconds++
			}
		}
		return seconds > 20 // ten of them are counted together
	})
	if status, doc := n.send(http.MethodPatch, path, `{"limit":3}`); status != http.StatusOK {
		w.t.Fatalf("%d %v", status, doc)
	}
	w.do(chromedp.Navigate(n.url+"/console"), chromedp.WaitVisible("#live-attention"))
	w.firstScreenSays(`search-per-user denies \d+% of its requests since version 2 \(by .*\), none before` +
		`.*Changed: limit 100,000 to 3\.`)

	eventually(w.t, "the page of the rule and the doctor name the edit", func() bool {
		w.do(chromedp.Navigate(n.url + "/console/rules/" + fmt.Sprint(rule["id"])))
		return strings.Contains(w.text("#doctor"), "Since version 2 (limit 100,000 to 3), the rule denies more") &&
			strings.Contains(w.text("#live-risen"), "since version 2")
	})

	w.do(chromedp.Navigate(n.url+"/console"), chromedp.WaitVisible("#live-attention"))
	w.firstScreenSays(`search-per-user denies`)
	w.do(chromedp.Click(`//*[@id="live-attention"]//a[text()="Roll back"]`), chromedp.WaitVisible(".diff"),
		chromedp.Click("main form .button.primary"), chromedp.WaitVisible("[data-flash]"))
	if _, doc := n.send(http.MethodGet, path, ""); doc["limit"] != 100000.0 || doc["version"] != 3.0 {
		w.t.Errorf("after Roll back: %v", doc)
	}
	eventually(w.t, "requests pass again", func() bool { return n.allowed(bodies[0]) })
}

// outageIsNamed plays an outage of Redis, which ends with its restart.
func outageIsNamed(w *window, n *node, redis *testenv.RedisServer) {
	w.t.Helper()
	n.modes(40)
	s := &story{rule: map[string]incident.Rule{}}
	stop := s.press(n)
	defer stop()
	eventually(w.t, "requests are decided", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 0 })
	redis.Kill()
	w.firstScreenSays(`1 rule lets everything pass, 1 refuses everything and 1 enforces each node's share ` +
		`while Redis is unreachable, since .*Fail modes denied [1-9]`)
	redis.Restart()
	w.until(`!/Redis is unreachable/.test(document.querySelector("#live-attention").innerText)`)
}
