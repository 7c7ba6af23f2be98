package playbook

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// traffic makes requests that the recipes are about.
type traffic struct{ *rand.Rand }

func (r traffic) one(of ...string) string { return of[r.IntN(len(of))] }

// path returns what to ask. Most requests are checks.
func (r traffic) path() string {
	if r.IntN(2) == 0 {
		return "/ratelimit/check"
	}
	return r.one("/ratelimit/check", "/ratelimit/charge", "/ratelimit/refund", "/ratelimit/explain",
		"/ratelimit/reserve", "/ratelimit/reset?only=ban")
}

// facts returns a request with some of the facts that the rules of the recipes look at.
func (r traffic) facts() string {
	facts := []string{`"route": "` + r.one("/v1/charges", "/v1/customers", "/v1/search/a", "/login", "/login/code", "/orders",
		"/graphql", "/repos/x", "/links", "/signup", "/payments", "/messages") + `"`}
	for _, fact := range []string{
		`"method": "` + r.one("GET", "POST", "POST", "PATCH") + `"`,
		`"user": "` + r.one("ada", "bo") + `"`,
		`"ip": "` + r.one("203.0.113.7", "198.51.100.9") + `"`,
		`"api_key": "` + r.one("key-a", "key-b") + `"`,
		`"tier": "` + r.one("test", "pro", "gold") + `"`,
		`"attributes": {"` + r.one("login", "idempotency_key", "creates", "device", "provider", "partition") + `": "x"}`,
		fmt.Sprintf(`"fields": {"points": %d, "cents": %d, "tokens": %d}`, r.IntN(60), r.IntN(40), r.IntN(5000)),
		`"weight": ` + r.one("0", "1", "2", "5", "70"),
	} {
		if r.IntN(4) > 0 {
			facts = append(facts, fact)
		}
	}
	return "{" + strings.Join(facts, ", ") + "}"
}

// direct returns a request with up to four limits.
func (r traffic) direct() string {
	var limits []string
	for i := range 1 + r.IntN(4) {
		limits = append(limits, fmt.Sprintf(`{"key": "k%d-%d", "limit": %d, "window_ms": %s, "algorithm": "%s"}`, i, r.IntN(2),
			5+r.IntN(20), r.one("1000", "60000"), r.one("fixed_window", "sliding_window_log", "sliding_window_counter",
				"sliding_window_buckets", "token_bucket", "gcra", "leaky_bucket", "leaky_queue")))
	}
	return fmt.Sprintf(`{"limits": [%s], "weight": %d}`, strings.Join(limits, ", "), r.IntN(6))
}

var (
	ids      = regexp.MustCompile(`"(lease|reservation)":"[^"]*"`)
	banAfter = regexp.MustCompile(`after: \d+`)
)

// With every recipe in force, a request is under up to twenty rules, three pools, and bans. Both
// stores answer the same traffic in the same words.
func TestRecipes_AllTogetherBothStoresAnswerTheSame(t *testing.T) {
	stores := []*World{Serve(t), ServeOnRedis(t)}
	files, err := filepath.Glob("../../deploy/recipes/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range stores {
		for _, file := range files {
			// Bans begin early, so that there are some.
			text := banAfter.ReplaceAllString(read(t, file), "after: 2")
			status, body, err := w.send(&request{method: http.MethodPost, path: "/ratelimit/rules/import", body: text,
				headerNames: []string{"Content-Type"}, headerLines: []string{"application/yaml"}})
			if err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d %s, %v", file, status, body, err)
			}
		}
	}
	r := traffic{rand.New(rand.NewPCG(17, 0))} //nolint:gosec // the same traffic each time
	seen := map[string]int{}
	for step := range 400 {
		if r.IntN(12) == 0 {
			d := time.Duration(r.IntN(3000)) * time.Millisecond
			for _, w := range stores {
				w.SetTime(w.Now().Add(d))
			}
		}
		path, body := r.path(), r.facts()
		if r.IntN(5) == 0 {
			path, body = r.one("/ratelimit/check", "/ratelimit/charge", "/ratelimit/refund", "/ratelimit/reset"), r.direct()
		}
		var answers []string
		for _, w := range stores {
			status, answer, err := w.send(&request{method: http.MethodPost, path: path, body: body})
			if err != nil || status != http.StatusOK {
				t.Fatalf("step %d: %s %s: %d %s, %v", step, path, body, status, answer, err)
			}
			answers = append(answers, ids.ReplaceAllString(answer, `"$1":"…"`))
		}
		if answers[0] != answers[1] {
			t.Fatalf("step %d: %s %s: in memory\n%s\non Redis\n%s", step, path, body, answers[0], answers[1])
		}
		for _, word := range []string{`{"allowed":true`, `"status":429`, `"shed":true`, `"ban_ms":`} {
			if strings.Contains(answers[0], word) {
				seen[word]++
			}
		}
	}
	for _, word := range []string{`{"allowed":true`, `"status":429`, `"shed":true`, `"ban_ms":`} {
		if seen[word] < 10 {
			t.Errorf("%d answers have %s", seen[word], word)
		}
	}
}
