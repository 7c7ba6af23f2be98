//go:build beside

package app

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goccy/go-yaml"

	"sluice/internal/testenv"
)

// TestBeside runs a program of an earlier version, which SLUICE_BESIDE names, beside this one, on one Redis and one
// Postgres, as in a rolling upgrade:
//
//	make test-beside FROM=80d100e
func TestBeside(t *testing.T) {
	old := os.Getenv("SLUICE_BESIDE")
	if old == "" {
		t.Fatal("say which commit, as in make test-beside FROM=80d100e")
	}
	bin := testenv.Sluice(t)
	t.Run("the earlier version starts first", func(t *testing.T) {
		env := fleetEnv(t)
		before := spawn(t, old, "", env...)
		besides(t, before, newer(t, bin, env), func() *child { return spawn(t, old, "", env...) })
	})
	t.Run("this version starts first", func(t *testing.T) {
		env := fleetEnv(t)
		now := newer(t, bin, env)
		besides(t, spawn(t, old, "", env...), now, func() *child { return spawn(t, old, "", env...) })
	})
}

// both are a process of this version and its gRPC address.
type both struct {
	*child
	grpc string
}

func newer(t *testing.T, bin string, env []string) both {
	t.Helper()
	addr := testenv.FreeAddr(t)
	return both{spawn(t, bin, "", append(env, "SLUICE_GRPC_LISTEN="+addr)...), addr}
}

// node is the process as a node, for its helpers.
func (c *child) node() *node { return &node{t: c.t, url: c.url, client: c.client} }

// besides edits rules of all kinds through the newer process and looks at both, while both are under load.
func besides(t *testing.T, before *child, now both, again func() *child) {
	older, newer, calls := before.node(), now.node(), dialGRPC(t, now.grpc, nil)
	load := newBalancer(t, before, now.child).load(4)
	load.serves(20)
	plain := newer.create(`{"name":"plain","scope":"user","route":"/plain","limit":1000,"window_ms":31536000000}`)
	path := fmt.Sprintf("/ratelimit/rules/%v", plain["id"])
	limit := 1000
	// follows edits the ordinary rule through each process and waits for the other to follow.
	follows := func(after string) {
		t.Helper()
		for _, from := range []*node{newer, older} {
			limit++
			if code, doc := from.send("PATCH", path, fmt.Sprintf(`{"limit":%d}`, limit)); code != http.StatusOK {
				t.Errorf("after %s: the edit answered %d %v", after, code, doc)
			}
			for side, n := range map[string]*node{"this version": newer, "the earlier one": older} {
				eventually(t, "after "+after+", "+side+" follows", func() bool {
					return n.check(`{"user":"probe","route":"/plain","weight":0}`)["limit"] == float64(limit)
				})
			}
		}
		load.serves(20)
	}
	follows("the start")

	// Rules of every kind, one by one and as an import.
	var ids []any
	for i, members := range []string{
		`"limit":5,"window_ms":31536000000`, `"limit":5,"window_ms":31536000000,"addend":"charge"`, `"unlimited":true,"window_ms":1000`,
		`"limit":0,"window_ms":60000`, `"limit":4294967295,"window_ms":31536000000,"quota":true,"metadata":{"a":"b"}`,
		`"limit":5,"window_ms":31536000000,"algorithm":"concurrency"`, `"limit":5,"window_ms":31536000000,"mode":"shadow","replaces":["d0"]`,
		`"limit":5,"window_ms":31536000000,"share_threshold":true`, `"limit":5,"window_ms":86400000,"algorithm":"fixed_window","is_active":false`,
	} {
		entry := fmt.Sprintf(`{"key":"d%d"}`, i)
		if strings.Contains(members, "share") {
			entry = fmt.Sprintf(`{"key":"d%d","pattern":"/v1/*"}`, i)
		}
		rule := fmt.Sprintf(`{"name":"d%d",%s,"descriptor":{"domain":"shop","entries":[%s]}}`, i, members, entry)
		if !strings.Contains(members, "algorithm") {
			rule = strings.Replace(rule, `"limit"`, `"algorithm":"fixed_window","limit"`, 1)
		}
		ids = append(ids, newer.create(rule)["id"])
	}
	follows("rules with descriptors")
	importEnvoy(t, now.child)
	follows("an import")
	profile := `{"name":"shop","facts":{"user":[{"header":"X-User"}]},"domain":"facts","entries":{"user":"user"},
		"proof":{"networks":["127.0.0.1"]}}`
	if code, doc := newer.send("POST", "/ratelimit/profiles", profile); code != http.StatusCreated {
		t.Errorf("the profile: %d %v", code, doc)
	}
	follows("a profile that reads a domain")
	for _, members := range []string{
		`"name":"hosted","scope":"user","host":"*.example.com"`, `"name":"by-host","scope":"user+host"`,
		`"name":"networks","scope":"user","when":"cidr(ip, \"10.0.0.0/8\")"`,
	} {
		ids = append(ids, newer.create(`{` + members + `,"route":"/hosted","limit":0,"window_ms":60000}`)["id"])
	}
	follows("rules with hosts")
	hosts := func(after string) {
		t.Helper()
		for body, want := range map[string]int{
			`{"user":"a","route":"/hosted","host":"b.example.com","ip":"10.1.2.3"}`: 3,
			`{"user":"a","route":"/hosted","host":"c"}`:                             1,
		} {
			eventually(t, "after "+after+" rules of hosts apply", func() bool {
				limits, _ := newer.check(body)["limits"].([]any)
				return len(limits) == want
			})
		}
		if a := older.check(`{"user":"a","route":"/hosted","ip":"10.1.2.3"}`); a["allowed"] != true {
			t.Errorf("after %s the earlier one applies rules of hosts to all: %v", after, a)
		}
	}
	hosts("their creation")
	for _, id := range ids[len(ids)-3:] {
		path := fmt.Sprintf("/ratelimit/rules/%v", id)
		if code, doc := older.send("PATCH", path, `{"description":"edited"}`); code != http.StatusOK {
			t.Errorf("the edit of %v by the earlier one: %d %v", id, code, doc)
		}
		if code, doc := older.send("POST", path+"/rollback", `{"version":1}`); code != http.StatusOK {
			t.Errorf("the rollback of %v by the earlier one: %d %v", id, code, doc)
		}
	}
	hosts("edits by the earlier one")
	ids = append(ids, bansBeside(t, older, newer))
	follows("a ban")

	// Both list and show them. The earlier one edits, rolls back and deletes some, and those of descriptors stay what
	// they are.
	for side, n := range map[string]*node{"this version": newer, "the earlier one": older} {
		for _, id := range ids {
			for _, end := range []string{"", "/history"} {
				if code, doc := n.send("GET", fmt.Sprintf("/ratelimit/rules/%v%s", id, end), ""); code != http.StatusOK {
					t.Errorf("%s shows %v%s: %d %v", side, id, end, code, doc)
				}
			}
		}
	}
	first := fmt.Sprintf("/ratelimit/rules/%v", ids[0])
	entries := func(what string, want int) {
		t.Helper()
		eventually(t, "after "+what+" the descriptor applies", func() bool {
			a, err := calls.ShouldRateLimit(t.Context(), domainCall("d0", "probe"))
			return err == nil && int(a.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()) == want
		})
	}
	entries("its creation", 5)
	if code, doc := older.send("PATCH", first, `{"limit":6,"description":"edited"}`); code != http.StatusOK {
		t.Errorf("the edit by the earlier one: %d %v", code, doc)
	}
	entries("an edit by the earlier one", 6)
	if code, doc := newer.send("PATCH", first, `{"limit":7,"metadata":{"c":"d"}}`); code != http.StatusOK {
		t.Errorf("the edit: %d %v", code, doc)
	}
	entries("an edit by this one", 7)
	// The earlier one refuses to roll back to what it does not know. This one rolls back to both kinds of versions.
	want := http.StatusUnprocessableEntity
	if _, doc := older.send("GET", first, ""); doc["descriptor"] != nil {
		want = http.StatusOK
	}
	if code, doc := older.send("POST", first+"/rollback", `{"version":1}`); code != want {
		t.Errorf("the rollback by the earlier one: %d %v, want %d", code, doc, want)
	}
	for version, want := range map[int]int{1: 5, 2: 6, 3: 7} {
		if code, doc := newer.send("POST", first+"/rollback", fmt.Sprintf(`{"version":%d}`, version)); code != http.StatusOK {
			t.Errorf("the rollback to %d: %d %v", version, code, doc)
		}
		entries(fmt.Sprintf("a rollback to %d", version), want)
	}
	follows("edits of rules with descriptors")

	// A process of the earlier version starts on these rules.
	late := again()
	if code, doc := late.node().send("GET", "/readyz", ""); code != http.StatusOK {
		t.Errorf("the earlier one, started anew: %d %v", code, doc)
	}
	for i, id := range ids {
		by := []*node{newer, older}[i%2]
		if code, doc := by.send("DELETE", fmt.Sprintf("/ratelimit/rules/%v", id), ""); code != http.StatusNoContent {
			t.Errorf("delete %v: %d %v", id, code, doc)
		}
	}
	follows("deletions")
	eventually(t, "deleted rules apply no more", func() bool {
		a, err := calls.ShouldRateLimit(t.Context(), domainCall("d0", "probe"))
		return err == nil && a.GetStatuses()[0].GetCurrentLimit() == nil
	})

	storms(t, older, newer)
	load.stop()
	if n := len(load.broken) + int(load.excused.Load()); n != 0 {
		t.Errorf("%d of %d requests failed: %v", n, load.admitted.Load(), load.broken)
	}
	if spent := load.b.spent(); spent != load.admitted.Load() {
		t.Errorf("Redis holds %d, %d were admitted", spent, load.admitted.Load())
	}
	for side, c := range map[string]*child{"this version": now.child, "the earlier one": before, "the late one": late} {
		if got := c.metric(`sluice_reload_failures_total{what="rules"}`); got != 0 {
			t.Errorf("%s failed to load rules %v times", side, got)
		}
		for line := range strings.Lines(c.log.String()) {
			if (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")) &&
				!strings.Contains(line, "a key became hot") {
				t.Errorf("%s logged %s", side, line)
			}
		}
	}
}

// bansBeside bans a user on this version. The earlier one applies the rule, with its ban if it knows bans, and its
// edits leave the ban in place. It returns the rule's ID.
func bansBeside(t *testing.T, older, newer *node) any {
	t.Helper()
	rule := newer.create(`{"name":"banning","scope":"user","route":"/banning","algorithm":"fixed_window","limit":1,
		"window_ms":31536000000,"ban":{"after":2,"within_ms":60000,"for_ms":3600000}}`)
	const look, take = `{"user":"a","route":"/banning","weight":0}`, `{"user":"a","route":"/banning"}`
	path := fmt.Sprintf("/ratelimit/rules/%v", rule["id"])
	for _, n := range []*node{older, newer} {
		eventually(t, "the rule with a ban is in force", func() bool { return n.check(look)["limit"] == 1.0 })
	}
	bans := func(after string) {
		t.Helper()
		eventually(t, "after "+after+" this version bans", func() bool { return newer.check(take)["ban_ms"] != nil })
	}
	bans("its creation")
	_, doc := older.send("GET", path, "")
	if a := older.check(take); a["allowed"] != false || (a["ban_ms"] != nil) != (doc["ban"] != nil) {
		t.Errorf("the earlier one answers a banned user with %v", a)
	}
	for request, body := range map[string]string{
		"PATCH " + path: `{"description":"edited"}`, "POST " + path + "/rollback": `{"version":1}`,
	} {
		method, to, _ := strings.Cut(request, " ")
		if code, doc := older.send(method, to, body); code != http.StatusOK {
			t.Errorf("%s by the earlier one: %d %v", request, code, doc)
		}
		bans(request)
	}
	if _, doc := newer.send("GET", path, ""); doc["ban"] == nil || doc["version"] != 3.0 {
		t.Errorf("after edits by the earlier one: %v", doc)
	}
	return rule["id"]
}

// storms sends more checks of each algorithm than fit to both nodes at once.
func storms(t *testing.T, nodes ...*node) {
	const limit, each = 50, 10
	var wg sync.WaitGroup
	for _, algorithm := range []string{"fixed_window", "sliding_window_log", "sliding_window_counter",
		"sliding_window_buckets", "token_bucket", "gcra", "leaky_bucket", "concurrency"} {
		for kind, body := range map[string]string{
			"by key": fmt.Sprintf(`{"key":"storm-%[1]s","limit":%[2]d,"window_ms":31536000000,"algorithm":%[1]q,"fail_mode":"closed"}`,
				algorithm, limit),
			"by rule": fmt.Sprintf(`{"user":"u","route":"/%s"}`, algorithm),
		} {
			if kind == "by rule" {
				nodes[1].create(fmt.Sprintf(`{"name":"%[1]s","scope":"user","route":"/%[1]s","limit":%[2]d,
					"window_ms":31536000000,"algorithm":%[1]q,"fail_mode":"closed"}`, algorithm, limit))
				for _, n := range nodes {
					eventually(t, "the rule is in force", func() bool {
						return len(n.check(strings.Replace(body, "}", `,"weight":0}`, 1))["limits"].([]any)) == 1
					})
				}
			}
			var admitted atomic.Int64
			for _, n := range nodes {
				for range 4 {
					wg.Go(func() {
						for range each {
							if n.allowed(body) {
								admitted.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			if got := admitted.Load(); got != limit {
				t.Errorf("%s, %s: %d of %d admitted, want exactly %d", algorithm, kind, got, len(nodes)*4*each, limit)
			}
		}
	}
}

// importEnvoy imports a file of envoyproxy/ratelimit with nested descriptors.
func importEnvoy(t *testing.T, c *child) {
	t.Helper()
	var list []yaml.MapSlice
	for i := range 20 {
		list = append(list, yaml.MapSlice{{Key: "key", Value: fmt.Sprintf("k%d", i)},
			{Key: "rate_limit", Value: map[string]any{"unit": "day", "requests_per_unit": i}},
			{Key: "descriptors", Value: []any{map[string]any{"key": "path", "value": "/v1/*", "shadow_mode": i%2 == 0,
				"rate_limit": map[string]any{"unit": "year", "requests_per_unit": 1<<32 - 1}}}}})
	}
	text, err := yaml.Marshal(yaml.MapSlice{{Key: "domain", Value: "imported"}, {Key: "descriptors", Value: list}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/ratelimit/rules/import?format=envoy",
		strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/yaml")
	req.Header.Set("Authorization", "Bearer "+c.token)
	res, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the import answered %d", res.StatusCode)
	}
}
