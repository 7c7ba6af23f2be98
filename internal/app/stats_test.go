package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"sluice/internal/history"
)

// answers adds up what callers were answered, by rule, and under "" by request.
type answers struct {
	mu    sync.Mutex
	rules map[string]history.Figures
	keys  map[string]history.Figures // of all requests, by the user
}

// counted is a decision of a request or of a limit, as figures.
func counted(allowed bool, what map[string]any, wouldDeny, wouldAllow bool) (f history.Figures) {
	one := func(n *int64, is any) {
		if is == true {
			*n = 1
		}
	}
	one(&f.Allowed, allowed)
	one(&f.Denied, !allowed)
	one(&f.Soft, what["soft"])
	one(&f.Elastic, what["elastic"])
	one(&f.Shed, what["shed"])
	one(&f.WouldDeny, wouldDeny)
	one(&f.WouldAllow, wouldAllow)
	return f
}

// add counts an answer of POST /ratelimit/check.
func (a *answers) add(user string, doc map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	limits, _ := doc["limits"].([]any)
	count := func(in map[string]history.Figures, name string, f history.Figures) {
		sum := in[name]
		sum.Add(f)
		in[name] = sum
	}
	candidates := map[any]bool{} // whether the candidate of a rule allows
	for _, l := range limits {
		if limit, _ := l.(map[string]any); limit["mode"] == "candidate" {
			candidates[limit["rule"]] = limit["allowed"] == true
		}
	}
	wouldDeny, wouldAllow := false, true // of the request
	for _, l := range limits {
		limit, _ := l.(map[string]any)
		if limit["mode"] == "candidate" {
			continue
		}
		deny, allow := limit["mode"] == "shadow" && limit["allowed"] != true, false
		allowed := deny || limit["allowed"] == true
		if would, ok := candidates[limit["rule"]]; ok {
			deny, allow = allowed && !would, !allowed && would
		}
		count(a.rules, limit["rule"].(string), counted(allowed, limit, deny, allow))
		wouldDeny, wouldAllow = wouldDeny || deny, wouldAllow && (allowed || allow)
	}
	allowed := doc["allowed"] == true
	whole := counted(allowed, doc, allowed && wouldDeny, !allowed && wouldAllow && len(limits) > 0)
	count(a.rules, "", whole)
	count(a.keys, "user:"+user, whole)
}

// figuresOverTime is an answer of GET /ratelimit/stats.
type figuresOverTime struct {
	Series []struct {
		Rule   *string
		Points [][]*int64
	}
	Top []struct {
		Key                    string
		Allowed, Denied, Error int64
	}
	KeysDenied      *int64 `json:"keys_denied"`
	KeysDeniedError *int64 `json:"keys_denied_error"`
	Partial         string
}

// figures asks for figures.
func (n *node) figures(query url.Values) (h figuresOverTime) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(n.text("/ratelimit/stats?"+query.Encode())), &h); err != nil {
		n.t.Fatal(err)
	}
	return h
}

// sums adds up the known points of each series, by rule.
func (h *figuresOverTime) sums() map[string]history.Figures {
	out := map[string]history.Figures{}
	for _, s := range h.Series {
		var sum [history.NumFigures]int64
		for _, p := range s.Points {
			for i, v := range p[1:] {
				if v != nil {
					sum[i] += *v
				}
			}
		}
		name := ""
		if s.Rule != nil {
			name = *s.Rule
		}
		out[name] = history.FiguresOf(sum)
	}
	return out
}

// figureRules are rules with every figure but degraded.
func (n *node) figureRules() {
	n.t.Helper()
	if status, doc := n.send(http.MethodPost, "/ratelimit/pools",
		`{"name":"shop","limit":12,"window_ms":86400000,"shed":true}`); status != http.StatusCreated {
		n.t.Fatalf("the pool: %d %v", status, doc)
	}
	const hard = `"scope":"user","window_ms":86400000,"fail_mode":"closed"`
	n.create(`{"name":"stricter","route":"/a","limit":5,"candidate":{"limit":2},` + hard + `}`)
	n.create(`{"name":"looser","route":"/a","limit":4,"candidate":{"limit":9},` + hard + `}`)
	n.create(`{"name":"soft","route":"/b","limit":3,"throttle":"soft","soft_percent":100,` + hard + `}`)
	n.create(`{"name":"shadow","route":"/b","limit":1,"mode":"shadow",` + hard + `}`)
	n.create(`{"name":"shed","route":"/c","limit":100,"pool":"shop",` + hard + `}`)
}

// traffic sends requests to nodes, several at once to each, and counts the answers.
func (a *answers) traffic(nodes ...*node) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		for worker := range 3 {
			wg.Go(func() {
				for i := range 30 {
					user := fmt.Sprintf("u%d", (worker+i)%4)
					a.add(user, n.check(fmt.Sprintf(`{"user":%q,"route":"/%c","attributes":{"tenant":"acme"}}`, user, 'a'+i%3)))
				}
			})
		}
	}
	wg.Wait()
}

// addUp waits until the figures of every node and step are those of the answers.
func (a *answers) addUp(t *testing.T, begin time.Time, steps []string, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		for _, step := range steps {
			between := func(pairs ...string) url.Values {
				q := url.Values{"from": {begin.Add(-time.Minute).Format(time.RFC3339)}, "step": {step},
					"to": {time.Now().Add(time.Minute).Format(time.RFC3339)}}
				for i := 0; i < len(pairs); i += 2 {
					q.Set(pairs[i], pairs[i+1])
				}
				return q
			}
			for name, want := range a.rules {
				eventually(t, fmt.Sprintf("by %s, %q is %+v", step, name, want), func() bool {
					h := n.figures(between("rule", name, "by", "key"))
					return h.sums()[name] == want && h.Partial == ""
				})
			}
			eventually(t, "all rules by "+step+" add up", func() bool { // a table of all rules is kept for a moment
				return a.allAddUp(n.figures(between()))
			})
		}
	}
}

func newAnswers() *answers {
	return &answers{rules: map[string]history.Figures{}, keys: map[string]history.Figures{}}
}

// TestStats_AddUpToTheAnswers: by second, minute and hour, on each of two nodes, and after both are others.
func TestStats_AddUpToTheAnswers(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	begin := time.Now()
	a, b := start(t, cfg), start(t, cfg)
	a.figureRules()
	sent := newAnswers()
	eventually(t, "the rules are in force on b", func() bool {
		return b.ruleState()["version"] == a.ruleState()["version"]
	})
	sent.traffic(a, b)
	want := sent.rules[""]
	if want.Denied == 0 || want.Soft == 0 || want.Shed == 0 || want.WouldDeny == 0 || want.WouldAllow == 0 {
		t.Fatalf("the traffic has too little of something: %+v", want)
	}
	sent.addUp(t, begin, []string{"second", "minute", "hour", "day"}, a, b)

	var whole history.Figures
	byNode := a.figures(url.Values{"by": {"node"}})
	for _, row := range byNode.Top {
		whole.Add(history.Figures{Allowed: row.Allowed, Denied: row.Denied})
	}
	if whole.Allowed != want.Allowed || whole.Denied != want.Denied || len(byNode.Top) != 2 {
		t.Errorf("nodes %+v, want %+v of two", byNode.Top, want)
	}

	a.stop()
	b.stop()
	c := start(t, cfg)
	for by, rows := range map[string]int{"key": len(sent.keys), "route": 3, "tenant": 1} {
		eventually(t, fmt.Sprintf("by %s, %d rows have %+v", by, rows, want), func() bool {
			top := c.figures(url.Values{"by": {by}}).Top
			var allowed, denied int64
			for _, r := range top {
				allowed, denied = allowed+r.Allowed, denied+r.Denied
				key := sent.keys[r.Key]
				if by == "key" && (r.Allowed != key.Allowed || r.Denied != key.Denied || r.Error != 0) {
					return false
				}
			}
			return allowed == want.Allowed && denied == want.Denied && len(top) == rows
		})
	}

	var deniedKeys int64
	for _, key := range sent.keys {
		deniedKeys += min(1, key.Denied)
	}
	eventually(t, fmt.Sprintf("%d distinct keys were denied", deniedKeys), func() bool {
		h := c.figures(url.Values{"by": {"key"}})
		return h.KeysDenied != nil && max(*h.KeysDenied-deniedKeys, deniedKeys-*h.KeysDenied) <= *h.KeysDeniedError
	})

	sent.traffic(c)
	sent.addUp(t, begin, []string{"second", "minute"}, c)
}

// TestStats_ByKeyARequestCountsUnderEachOfItsKeys: once, although two rules have the key, and as denied under the keys
// whose limit denied it.
func TestStats_ByKeyARequestCountsUnderEachOfItsKeys(t *testing.T) {
	t.Parallel()
	n := start(t, settings(t))
	n.create(`{"name":"few","scope":"user","route":"/v1/x","limit":4,"window_ms":86400000}`)
	n.create(`{"name":"many","scope":"user","route":"/v1/x","limit":1000,"window_ms":86400000}`)
	n.create(`{"name":"all","scope":"attr:tenant","route":"/v1/x","limit":1000,"window_ms":86400000}`)
	for i := range 20 {
		n.check(fmt.Sprintf(`{"user":"u%d","route":"/v1/x","attributes":{"tenant":"acme"}}`, i%2))
	}
	want := map[string][2]int64{"user:u0": {4, 6}, "user:u1": {4, 6}, "attr:tenant:acme": {20, 0}}
	eventually(t, fmt.Sprintf("the keys are %v", want), func() bool {
		got := map[string][2]int64{}
		for _, row := range n.figures(url.Values{"by": {"key"}}).Top {
			got[row.Key] = [2]int64{row.Allowed, row.Denied}
		}
		return maps.Equal(got, want)
	})
}

// allAddUp reports whether the series and rows of all rules are those of the answers.
func (a *answers) allAddUp(h figuresOverTime) bool {
	for name, got := range h.sums() {
		if got != a.rules[name] {
			return false
		}
	}
	for _, row := range h.Top {
		if want := a.rules[row.Key]; row.Allowed != want.Allowed || row.Denied != want.Denied || row.Error != 0 {
			return false
		}
	}
	return len(h.Series) == len(a.rules)-1
}

// TestStats_OfAnEmbeddedNodeOutliveIt: with the last second if it was stopped.
func TestStats_OfAnEmbeddedNodeOutliveIt(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	begin := time.Now()
	n := start(t, cfg)
	n.figureRules()
	sent := newAnswers()
	for range 2 {
		sent.traffic(n)
		sent.addUp(t, begin, []string{"minute", "day"}, n)
		n.stop()
		n = start(t, cfg)
		sent.addUp(t, begin, []string{"minute", "hour", "day"}, n)
	}
}
