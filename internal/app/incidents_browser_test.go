package app

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/history/incident"
	"sluice/internal/testenv"
	"sluice/web/browsertest"
)

// saying is what pages of the console say at a moment, by path: a regular expression of their text, and after the word
// NEVER one of what they must not say, or after GONE one of what they no longer say: a node on a busy machine may miss
// Redis for a moment.
type saying map[string]string

// An incident as people see it: Redis is killed, Postgres is stopped too, Redis starts again, empty, and then Postgres.
// At each moment every page says what it knows, and nothing is shown as zero that is not known.
func TestIncidents_PlayedInABrowser(t *testing.T) {
	t.Parallel()
	b, err := browsertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cfg, postgres := onPostgres(t)
	redis := testenv.Redis(t)
	cfg.RedisURL.Value, cfg.StoreTimeout, cfg.Console = redis.URL(), 8*deadline, withConsole(t).Console
	n := start(t, cfg) // with a timeout at which a busy machine has no incidents of its own
	n.modes(40)
	open, visits := openWindow(t, b), openWindow(t, b) // a page that stays open, and one that goes round
	open.do(
		chromedp.Navigate(welcomeLink.FindString(n.out.String())), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "grace"), chromedp.SendKeys("#f-password", adminPassword),
		chromedp.SendKeys("#f-repeat", adminPassword+kb.Enter), chromedp.WaitVisible("#live-tiles"),
		chromedp.Click(`.side a[href="/console/incidents"]`), chromedp.WaitVisible(".empty"),
	)
	open.until(`document.querySelector("[data-live]").dataset.state === "live"`)
	visits.sameSession(open, n.url)
	s := &story{rule: map[string]incident.Rule{}}
	stop := s.press(n)
	defer stop()
	visits.round(n, saying{
		"":              `[1-9][\d.,]*/s GONE Redis is unreachable|Incident running`,
		"/traffic":      `[1-9][\d,]* allowed GONE missing|Redis is unreachable`,
		"/rules/3":      `[1-9][\d,]* allowed.*Version 1 created GONE missing|Redis is unreachable`,
		"/fail-modes":   `healthy never 0 GONE of this node`,
		"/incidents":    `No incidents`,
		"/traffic?by=x": `by: must be one of`,
	})

	redis.Kill()
	open.do(chromedp.WaitVisible("#live-running [data-incident]"))
	open.until(`/Circuit breaker tripped/.test(document.querySelector("#live-running").innerText) &&
		/by local/.test(document.querySelector("#live-running").innerText)`)
	eventually(t, "fail modes decide", func() bool { return s.each(60) })
	if running := n.incidents("breaker"); len(running) != 1 || running[0]["state"] != "running" {
		t.Errorf("the API says %v", running)
	}
	const ownOnly = `Redis is unreachable.*of this node`
	visits.round(n, saying{
		"":            ownOnly + `.*Incident running on.*Circuit breaker tripped.*[1-9][\d,]* by local.*tripped NEVER healthy`,
		"/traffic":    `counters are unavailable, so recent figures are those of this node.*[1-9][\d,]* by fail modes NEVER Peak in a second 0`,
		"/rules/3":    ownOnly + `.*[1-9][\d,]* by fail modes NEVER No requests in this period`,
		"/fail-modes": ownOnly + `.*tripped NEVER healthy`,
		"/denials":    ownOnly + `.*503, fail mode closed`,
		"/incidents":  `Running now: 1.*[1-9][\d,]* by local NEVER No incidents`,
		"/deferred":   `queues are unreachable NEVER No rule defers`,
		"/hot-keys":   ownOnly,
		"/pools":      `No pools`,
	})

	postgres.Stop()
	open.until(`/only incidents that this node remembers/.test(document.querySelector("#live-notes").innerText) &&
		/Rules database unreachable/.test(document.querySelector("#live-running").innerText)`)
	const noRules = `The rules database is unreachable`
	visits.round(n, saying{
		"":            noRules + `.*2 incidents running NEVER No rules yet`,
		"/traffic":    noRules + `.*rules database is unavailable, so older figures are missing or those of this node alone; the counters are unavailable.*by fail modes`,
		"/rules":      noRules + `.*/local NEVER No rules`,
		"/rules/3":    noRules + `.*history is unavailable.*`,
		"/fail-modes": noRules + `.*tripped`,
		"/incidents":  noRules + `.*only incidents that this node remembers.*Running now: 2.*server stopped|connection re`,
		"/pools":      noRules + ` NEVER No pools`,
		"/people":     noRules + ` NEVER only one administrator`,
		"/audit":      noRules + ` NEVER No entries`,
	})

	redis.Restart()
	eventually(t, "the breaker closes", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 0 })
	// Redis is empty: what the node had told it is there again before a page looks at it.
	visits.round(n, saying{
		"/traffic":    noRules + `.*older figures are missing.*[1-9][\d,]* by fail modes NEVER Nothing is known of this|No requests`,
		"":            noRules + `.*Rules database unreachable NEVER No requests in|Nothing is known`,
		"/rules/3":    noRules + `.*[1-9][\d,]* by fail modes NEVER No denials in`,
		"/fail-modes": `healthy NEVER tripped 127`,
		"/incidents":  `Running now: 1.*Rules database unreachable.*Before.*Circuit breaker tripped`,
		"/deferred":   `No rule defers`,
	})

	postgres.Restart()
	stop()
	open.until(`document.querySelector("#live-running [data-incident]") === null &&
		document.querySelectorAll("#live-past [data-incident]").length >= 2 &&
		!/only incidents/.test(document.querySelector("#live-notes").innerText)`)
	eventually(t, "the API says what callers saw", func() bool {
		ended := n.incidents("breaker")
		return len(ended) == 1 && ended[0]["state"] == "ended" && ended[0]["server"] == redis.Addr &&
			maps.Equal(rulesOf(ended[0]), s.rule)
	})
	open.do(chromedp.Navigate("about:blank"))
	visits.do(chromedp.Navigate("about:blank")) // its last page would miss the server
	n.stop()                                    // the figures of the run, and of this stop, are those of the next
	n = start(t, cfg)
	visits.round(n, saying{
		"":           `local.*Version GONE is unreachable, so|[Ii]ncidents? running`,
		"/traffic":   `[1-9][\d,]* by fail modes.*breaker of ` + redis.Addr + ` opened: .*breaker of ` + redis.Addr + ` closed.*node .* stopped.*node .* started GONE missing|Redis is unreachable`,
		"/rules/3":   `[1-9][\d,]* by fail modes.*Version 1 created`,
		"/incidents": `Rules database unreachable.*Circuit breaker tripped.*` + redis.Addr + `.*By rule \(3\) GONE Running`,
		"/pools":     `No pools`,
	})
	visits.do(chromedp.Navigate("about:blank")) // the node stops before the tab closes
}

// round visits pages until each says what it should. No page is longer than a second behind, and none fails in another
// way than by saying that the rules database is unavailable (503).
func (w *window) round(n *node, all saying) {
	w.t.Helper()
	space := regexp.MustCompile(`\s+`)
	for path, words := range all {
		words, gone, _ := strings.Cut(words, " GONE ")
		want, not, _ := strings.Cut(words, " NEVER ")
		var text string
		eventually(w.t, path+" says "+want, func() bool {
			if err := w.Go(n.url + "/console" + path); err != nil {
				w.t.Fatal(err)
			}
			w.is(`document.querySelectorAll("main details").forEach((d) => { d.open = true; }) ?? true`)
			text = space.ReplaceAllString(w.text("body"), " ")
			return regexp.MustCompile(want).MatchString(text) && (gone == "" || !regexp.MustCompile(gone).MatchString(text))
		})
		if not != "" && regexp.MustCompile(not).MatchString(text) {
			w.t.Errorf("%s says %s:\n%s", path, not, text)
		}
		if empty := w.text("main"); strings.TrimSpace(empty) == "" {
			w.t.Errorf("%s is empty", path)
		}
		switch status, err := w.Status(); {
		case err != nil:
			w.t.Fatal(err)
		case status >= http.StatusInternalServerError && (status != http.StatusServiceUnavailable ||
			!strings.Contains(text, "The rules database is unreachable")):
			w.t.Errorf("%s: %d\n%s", path, status, text)
		case status >= http.StatusBadRequest:
			w.Forgive() // the browser notes it
		}
	}
}

// incidents asks the API for those of a kind.
func (n *node) incidents(kind string) (out []map[string]any) {
	n.t.Helper()
	status, doc := n.send(http.MethodGet, "/ratelimit/incidents", "")
	list, _ := doc["incidents"].([]any)
	if status != http.StatusOK {
		n.t.Errorf("incidents: %d %v", status, doc)
	}
	for _, one := range list {
		if in, ok := one.(map[string]any); ok && in["kind"] == kind {
			out = append(out, in)
		}
	}
	return out
}

// rulesOf are the counts by rule of an incident of the API.
func rulesOf(in map[string]any) map[string]incident.Rule {
	out := map[string]incident.Rule{}
	list, _ := in["rules"].([]any)
	for _, one := range list {
		r, _ := one.(map[string]any)
		n := func(name string) int64 { v, _ := r[name].(float64); return int64(v) }
		rule, _ := r["rule"].(string)
		out[rule] = incident.Rule{Rule: rule, Open: n("open"), Local: n("local"), Closed: n("closed"),
			Denied: n("denied")}
	}
	return out
}
