package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
)

func TestHot_KeyOfTwoNodesIsOneLineInAPIAndConsole(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	cfg.HotKeyRate, cfg.PollInterval = 10, 100*time.Millisecond
	cfg.Console = config.Console{Console: true, SessionIdle: time.Hour}
	nodes := []*node{start(t, cfg), start(t, cfg)}
	nodes[0].create(`{"name":"by-key","scope":"apikey","limit":1000000,"window_ms":60000}`)
	batch := `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"api_key":"sk_live_4eC39HqLyjWDarjtT1zdp7dc"},`, 50),
		",") + `]}`
	eventually(t, "both nodes are in one line", func() bool {
		for _, n := range nodes {
			n.send(http.MethodPost, "/ratelimit/check/batch", batch)
		}
		_, doc := nodes[0].send(http.MethodGet, "/ratelimit/hot?nodes=all", "")
		keys, _ := doc["hot_keys"].([]any)
		if len(keys) != 1 {
			return false
		}
		k, _ := keys[0].(map[string]any)
		return k["rule"] == "by-key" && k["hot"] == true && k["nodes"] == float64(2)
	})
	p := newPerson(t, nodes[0])
	link := welcomeLink.FindStringSubmatch(nodes[0].out.String())
	p.post(nodes[0].url+"/console/welcome",
		url.Values{"token": {link[1]}, "name": {"grace"}, "password": {"long enough for this"},
			"repeat": {"long enough for this"}})
	eventually(t, "the console tells of it", func() bool {
		for _, n := range nodes {
			n.send(http.MethodPost, "/ratelimit/check/batch", batch)
		}
		_, page := p.get(nodes[0].url + "/console/hot-keys")
		_, home := p.get(nodes[0].url + "/console")
		if strings.Contains(page+home, "sk_live") {
			t.Fatal("the console shows a credential")
		}
		both := strings.Contains(page, strings.TrimPrefix(nodes[0].url, "http://")) &&
			strings.Contains(page, strings.TrimPrefix(nodes[1].url, "http://"))
		return both && strings.Contains(page, "apikey:sha256:") && strings.Contains(home, "1 key is hot")
	})
}
