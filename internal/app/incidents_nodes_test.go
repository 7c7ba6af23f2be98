package app

import (
	"encoding/csv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/history/incident"
)

// Redis is killed under two nodes. Every surface of both nodes tells one outage: the API with the nodes that had it,
// the file, the console's pages, and one band in the charts.
func TestIncidents_OneOutageOfTwoNodesIsOneOnEverySurface(t *testing.T) {
	t.Parallel()
	a, b, redis, _, _ := two(t)
	addresses := []string{strings.TrimPrefix(a.url, "http://"), strings.TrimPrefix(b.url, "http://")}
	slices.Sort(addresses)
	p := asAdmin(t, a)
	s := &story{rule: map[string]incident.Rule{}}
	stop := s.press(a, b)
	defer stop()
	eventually(t, "both nodes decide", func() bool { return !s.ask(a, "open", "probe") && !s.ask(b, "open", "probe") })
	redis.Kill()
	one := func(n *node, state string) bool {
		found := n.incidents("breaker")
		if len(found) != 1 || found[0]["state"] != state {
			return false
		}
		var nodes []string
		list, _ := found[0]["nodes"].([]any)
		for _, v := range list {
			address, _ := v.(string)
			nodes = append(nodes, address)
		}
		slices.Sort(nodes)
		return slices.Equal(nodes, addresses)
	}
	band := texts(`<rect class="incident"[^>]*><title>breaker of `+regexp.QuoteMeta(redis.Addr)+` opened: [^<]*\(2 nodes\)`+
		`, not over yet</title>`, `swatch incident">1 incident<`, `badge bad">running<`)
	for _, n := range []*node{a, b} {
		eventually(t, "the API tells one incident of both nodes", func() bool { return one(n, "running") })
		for _, path := range []string{"/console", "/console/traffic", "/console/rules/1"} {
			p.shows(n.url+path, http.StatusOK, band...)
		}
		p.shows(n.url+"/console", http.StatusOK, texts(`Incident running on.*2 nodes`)...)
		p.shows(n.url+"/console/incidents", http.StatusOK, texts(`Running now: 1<`, `and 1 more node`)...)
		_, file := p.get(n.url + "/console/incidents.csv")
		rows, err := csv.NewReader(strings.NewReader(file)).ReadAll()
		rows = slices.DeleteFunc(rows, func(row []string) bool { return row[1] != "breaker" || row[14] != "" })
		if err != nil || len(rows) != 1 || !strings.Contains(rows[0][9], addresses[0]) ||
			!strings.Contains(rows[0][9], addresses[1]) {
			t.Errorf("the file is (%v)\n%s", err, file)
		}
	}
	redis.Restart()
	eventually(t, "the breakers close", func() bool {
		return a.sum(`sluice_breaker_state\{.*\}`)+b.sum(`sluice_breaker_state\{.*\}`) == 0
	})
	stop()
	for _, n := range []*node{a, b} {
		eventually(t, "the API tells one incident of both nodes, which is over", func() bool { return one(n, "ended") })
		body := p.shows(n.url+"/console/traffic", http.StatusOK, texts(`swatch incident">1 incident<`,
			`breaker of `+regexp.QuoteMeta(redis.Addr)+` closed<`)...)
		if strings.Count(body, `<rect class="incident"`) != 1 || strings.Contains(body, "not over yet") {
			t.Error("the chart has another band, or one that is not over")
		}
	}
}
