package app

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"sluice/internal/config"
)

// What a node has decided is tried again in its own console, from its files and from its topic. The checks themselves
// and the stored rules are as before.
func TestReplays_TryAnEditOnWhatWasDecided(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	for _, to := range []string{config.DecisionLogFile, config.DecisionLogKafka} {
		t.Run(to, func(t *testing.T) {
			cfg := recording(t, to)
			cfg.Console = withConsole(t).Console
			if to == config.DecisionLogKafka {
				cfg.KafkaBrokers, cfg.KafkaTopic, cfg.KafkaCompression = broker.ListenAddrs(), "decisions", "gzip"
			}
			n := start(t, cfg)
			p := newPerson(t, n)
			link := welcomeLink.FindStringSubmatch(n.out.String())
			p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
				"password": {"long enough for this"}, "repeat": {"long enough for this"}})
			n.askTwice()
			eventually(t, "the events are written", func() bool {
				_, answer := n.send("GET", "/ratelimit/stats", "")
				logs, _ := answer["decision_log"].(map[string]any)
				of, _ := logs[to].(map[string]any)
				delivered, _ := of["delivered"].(float64)
				return delivered >= 3
			})
			form := url.Values{"id": {"1"}, "version": {"1"}, "name": {"once"}, "scope": {"user"}, "limit": {"100"},
				"window_ms": {"1"}, "window_ms.unit": {"minute"}, "algorithm": {"fixed_window"}, "is_active": {"on"},
				"replay.range": {"hour"}}
			_, page := p.post(n.url+"/console/rules/replay", form)
			address := regexp.MustCompile(`hx-get="([^"]+)"`).FindStringSubmatch(page)
			if address != nil {
				eventually(t, "the replay has ended", func() bool {
					_, page = p.get(n.url + address[1])
					return !strings.Contains(page, "hx-get")
				})
			}
			if !strings.Contains(page, "0 would be newly denied and 1 newly allowed") || !strings.Contains(page, "user:ada") {
				t.Errorf("the page is %s", page)
			}
			if _, answer := n.send("POST", "/ratelimit/check", `{"user": "ada"}`); answer["allowed"] != false {
				t.Errorf("the replay changed a counter: %v", answer)
			}
		})
	}
}
