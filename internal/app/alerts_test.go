package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/internal/testenv"
)

// receiver takes messages of webhooks and checks their signatures.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	secret string
	got    []receivedAlert
	wrong  []string
}

type receivedAlert struct {
	id   string
	at   time.Time
	Type string
	Data struct {
		State, Text, Rule, Key, Path string
		Numbers                      map[string]int64
	}
}

func receive(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	var verifier *standardwebhooks.Webhook
	if err == nil {
		verifier, err = standardwebhooks.NewWebhook(r.secret)
	}
	if err == nil {
		err = verifier.Verify(body, req.Header)
	}
	a := receivedAlert{id: req.Header.Get("Webhook-Id"), at: time.Now()}
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", body, err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.got = append(r.got, a)
}

// alerts are those that arrived.
func (r *receiver) alerts(t *testing.T) []receivedAlert {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wrong := range r.wrong {
		t.Errorf("received %s", wrong)
	}
	return append([]receivedAlert(nil), r.got...)
}

// hook creates a webhook for the alerts of some kinds.
func (r *receiver) hook(n *node, kinds string) {
	n.t.Helper()
	status, doc := n.send("POST", "/ratelimit/webhooks", fmt.Sprintf(`{"name": "pager", "url": %q, "kinds": [%s]}`, r.URL,
		kinds))
	if status != http.StatusCreated {
		n.t.Fatalf("create a webhook: %d %v", status, doc)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret, _ = doc["secret"].(string)
}

// evaluates reports whether a node holds the lease of alerts.
func evaluates(metrics string) bool {
	return strings.Contains(metrics, "\nsluice_alerts_evaluating 1\n")
}

// The 80th of 100 requests over three nodes is one message, and so is the 100th.
func TestAlerts_OneMessageForALevelOverThreeNodes(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	cfg.WebhookAllow = []string{"127.0.0.1"}
	nodes := []*node{start(t, cfg), start(t, cfg), start(t, cfg)}
	r := receive(t)
	r.hook(nodes[0], `"key_usage"`)
	nodes[0].create(`{"name": "charges-per-user", "scope": "user", "limit": 100, "window_ms": 3600000,
		"algorithm": "fixed_window", "notify_percent": [100, 80]}`)
	for _, n := range nodes {
		eventually(t, "the rule counts", func() bool {
			limits, _ := n.check(`{"user": "probe", "weight": 0}`)["limits"].([]any)
			return len(limits) == 1
		})
	}
	eventually(t, "a node evaluates", func() bool {
		return evaluates(nodes[0].text("/metrics")) || evaluates(nodes[1].text("/metrics")) ||
			evaluates(nodes[2].text("/metrics"))
	})
	spent := 0
	spend := func(upTo int) time.Time {
		for ; spent < upTo; spent++ {
			nodes[spent%len(nodes)].check(`{"user": "42", "ip": "192.0.2.77"}`)
		}
		return time.Now()
	}
	arrives := func(want int, at time.Time) {
		t.Helper()
		eventually(t, "the message arrives", func() bool { return len(r.alerts(t)) >= want })
		t.Logf("the message arrived %s after the request", r.alerts(t)[want-1].at.Sub(at))
	}
	arrives(1, spend(80))
	arrives(2, spend(100))
	for range 9 {
		nodes[spent%3].check(`{"user": "42"}`) // denied, on every node
		spent++
	}
	eventually(t, "every node has reported both levels", func() bool {
		stored := 0
		for _, n := range nodes {
			stored += int(n.metric(`sluice_alert_reports_total{kind="key_usage",result="stored"}`))
		}
		return stored == 6
	})
	var evaluator *node
	for _, n := range nodes {
		if evaluates(n.text("/metrics")) {
			evaluator = n
		}
	}
	told := evaluator.metric("sluice_alerts_told_total")
	got := r.alerts(t)
	if len(got) != 2 || told != 2 || got[0].id == got[1].id {
		t.Fatalf("%g alerts told, received %+v", told, got)
	}
	for i, want := range []int64{80, 100} {
		a := &got[i]
		if a.Type != "key_usage" || a.Data.State != "on" || a.Data.Rule != "charges-per-user" || a.Data.Key != "user:42" ||
			a.Data.Numbers["used"] != want || a.Data.Numbers["percent"] != want {
			t.Errorf("message %d: %+v", i, a)
		}
	}
	eventually(t, "every node knows what is on", func() bool {
		return nodes[1].metric(`sluice_alerts_active{kind="key_usage"}`) == 2
	})
}

// While its alert is silenced, a rule that denies much causes no message. The message is sent once the silence is
// deleted.
func TestAlerts_ASilencedOneIsSentAfterTheSilence(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.WebhookAllow = []string{"127.0.0.1"}
	n, r := start(t, cfg), receive(t)
	r.hook(n, "")
	n.create(`{"name": "one-an-hour", "scope": "user", "limit": 1, "window_ms": 3600000, "mode": "enforce"}`)
	status, silence := n.send("POST", "/ratelimit/silences", fmt.Sprintf(`{"kind": "rule_denials", "reason": "a test",
		"ends_at": %q}`, time.Now().Add(time.Hour).Format(time.RFC3339)))
	if status != http.StatusCreated {
		t.Fatalf("silence: %d %v", status, silence)
	}
	for range 40 {
		n.check(`{"user": "ada"}`)
	}
	eventually(t, "the silenced alert is active", func() bool {
		_, doc := n.send("GET", "/ratelimit/alerts", "")
		list, _ := doc["alerts"].([]any)
		if len(list) != 1 {
			return false
		}
		alert, _ := list[0].(map[string]any)
		return alert["silenced_by"] != nil
	})
	if got := r.alerts(t); len(got) > 0 {
		t.Fatalf("received %+v", got)
	}
	status, _ = n.send("DELETE", fmt.Sprintf("/ratelimit/silences/%v", silence["id"]), "")
	if status != http.StatusNoContent {
		t.Fatalf("delete: %d", status)
	}
	eventually(t, "the alert is sent", func() bool { return len(r.alerts(t)) == 1 })
	if a := r.alerts(t)[0]; a.Type != "rule_denials" || a.Data.State != "on" || a.Data.Rule != "one-an-hour" {
		t.Errorf("received %+v", a)
	}
}

// A rule that denies much, and the end of it when the rule is deleted, embedded.
func TestAlerts_DenialsOfARule(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.WebhookAllow = []string{"127.0.0.1"}
	n, r := start(t, cfg), receive(t)
	r.hook(n, "")
	rule := n.create(`{"name": "one-an-hour", "scope": "user", "limit": 1, "window_ms": 3600000, "mode": "enforce"}`)
	for range 40 {
		n.check(`{"user": "ada"}`)
	}
	eventually(t, "the denials are told", func() bool { return len(r.alerts(t)) == 1 })
	a := r.alerts(t)[0]
	if a.Type != "rule_denials" || a.Data.Numbers["denied"] != a.Data.Numbers["requests"]-1 {
		t.Errorf("received %+v", a)
	}
	if status, _ := n.send("DELETE", fmt.Sprintf("/ratelimit/rules/%v", rule["id"]), ""); status != http.StatusNoContent {
		t.Fatalf("delete: %d", status)
	}
	eventually(t, "the end is told", func() bool { return len(r.alerts(t)) == 2 })
	if a := r.alerts(t)[1]; a.Type != "rule_denials" || a.Data.State != "off" {
		t.Errorf("received %+v", a)
	}
}

// The page of alerts says since when a rule denies much, with figures of now. The message keeps those of its instant.
func TestAlerts_ThePageHasLiveFigures(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.WebhookAllow, cfg.Console = []string{"127.0.0.1"}, withConsole(t).Console
	n, r := start(t, cfg), receive(t)
	p := asAdmin(t, n)
	r.hook(n, "")
	n.create(`{"name": "one-an-hour", "scope": "user", "limit": 1, "window_ms": 3600000, "mode": "enforce"}`)
	for range 40 {
		n.check(`{"user": "ada"}`)
	}
	eventually(t, "the denials are told", func() bool { return len(r.alerts(t)) == 1 })
	text, denied := r.alerts(t)[0].Data.Text, r.alerts(t)[0].Data.Numbers["denied"]
	if !regexp.MustCompile(`denied \d+ of \d+ requests .* in the minute before \d\d:\d\d:\d\d UTC\.$`).MatchString(text) {
		t.Errorf("told %q", text)
	}
	live := regexp.MustCompile(`has denied many requests since \d\d:\d\d:\d\d UTC: ([\d,]+) of [\d,]+ \([^)]+%\) in the minute ` +
		`before \d\d:\d\d:\d\d UTC\.`)
	eventually(t, "the figures of the page rise", func() bool {
		for range 10 {
			n.check(`{"user": "ada"}`)
		}
		_, body := p.get(n.url + "/console/alerts")
		got := live.FindStringSubmatch(body)
		if got == nil {
			return false
		}
		now, err := strconv.ParseInt(strings.ReplaceAll(got[1], ",", ""), 10, 64)
		return err == nil && now > denied && strings.Contains(body, text)
	})
	if a := r.alerts(t); len(a) != 1 {
		t.Errorf("told %d times", len(a))
	}
}

// Fail modes decide while Redis is down.
func TestAlerts_FailModes(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	cfg := onRedis(t, server.URL())
	cfg.WebhookAllow = []string{"127.0.0.1"}
	n, r := start(t, cfg), receive(t)
	r.hook(n, `"failmode_engaged"`)
	n.create(`{"name": "api", "scope": "user", "limit": 1000, "window_ms": 60000, "fail_mode": "open"}`)
	server.Kill()
	eventually(t, "fail modes are told", func() bool {
		n.check(`{"user": "ada"}`)
		return len(r.alerts(t)) == 1
	})
	if a := r.alerts(t)[0]; a.Type != "failmode_engaged" || a.Data.Path != "/console/incidents" ||
		!strings.Contains(a.Data.Text, ": connection ") {
		t.Errorf("received %+v", a)
	}
}

// What a node saw during an outage of the rules database is told afterwards. The database comes back as it was before
// the first alert, which is not told again.
func TestAlerts_OutlastTheDatabase(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	cfg.WebhookAllow = []string{"127.0.0.1"}
	n, r := start(t, cfg), receive(t)
	r.hook(n, `"key_usage"`)
	n.create(`{"name": "charges-per-user", "scope": "user", "limit": 100, "window_ms": 3600000,
		"algorithm": "fixed_window", "notify_percent": [80, 100]}`)
	lagging := postgres.Copy(t)
	n.check(`{"user": "42", "weight": 80}`)
	eventually(t, "the first level is told", func() bool { return len(r.alerts(t)) == 1 })
	eventually(t, "the alert is on", func() bool { return n.metric(`sluice_alerts_active{kind="key_usage"}`) == 1 })
	postgres.Stop()
	n.check(`{"user": "42", "weight": 20}`)
	eventually(t, "the report waits", func() bool { return n.metric("sluice_alert_reports_waiting") == 1 })
	if n.metric(`sluice_alerts_active{kind="key_usage"}`) != 1 {
		t.Error("the node forgot what is on")
	}
	postgres.FailOver(lagging)
	eventually(t, "the second level is told", func() bool { return len(r.alerts(t)) == 2 })
	eventually(t, "both are on", func() bool { return n.metric(`sluice_alerts_active{kind="key_usage"}`) == 2 })
	for i, percent := range []int64{80, 100} {
		if got := r.alerts(t)[i]; got.Data.Numbers["percent"] != percent {
			t.Errorf("message %d: %+v", i, got)
		}
	}
}
