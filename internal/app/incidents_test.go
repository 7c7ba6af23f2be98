package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/history/incident"
	"sluice/internal/testenv"
)

// story is what callers got from fail modes, by rule: open, local, closed, denied.
type story struct {
	mu   sync.Mutex
	rule map[string]incident.Rule
}

// ask sends a check and counts its answer. The rules are those of modes.
func (s *story) ask(n *node, mode, user string) (degraded bool) {
	doc := n.check(fmt.Sprintf(`{"user":%q,"route":"/%s"}`, user, mode))
	got, ok := doc["degraded"].(string)
	if !ok {
		return false
	}
	c := incident.Rule{Rule: mode}
	switch got {
	case "open":
		c.Open = 1
	case "local":
		c.Local = 1
	case "closed":
		c.Closed = 1
	}
	if doc["status"] != float64(200) {
		c.Denied = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.rule[mode]
	sum.Rule = mode
	sum.Add(c)
	s.rule[mode] = sum
	return true
}

// press lets clients of nodes ask for all modes until it is stopped.
func (s *story) press(nodes ...*node) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := c; ctx.Err() == nil; i++ {
				s.ask(nodes[c%len(nodes)], []string{"open", "closed", "local"}[i%3], fmt.Sprint("u", c))
				<-tick.C
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// got is how often fail modes decided by each rule, at least n times.
func (s *story) each(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mode := range []string{"open", "closed", "local"} {
		if c := s.rule[mode]; c.Decided() < n {
			return false
		}
	}
	return true
}

// told is the story that stored incidents tell, by rule.
func told(all []incident.Incident) map[string]incident.Rule {
	out := map[string]incident.Rule{}
	for _, in := range all {
		for _, r := range in.Rules {
			sum := out[r.Rule]
			sum.Rule = r.Rule
			sum.Add(r)
			out[r.Rule] = sum
		}
	}
	return out
}

// stored reads incidents as any node does.
func stored(t *testing.T, cfg *config.Serve) func() []incident.Incident {
	t.Helper()
	db, err := database.Open(t.Context(), databaseOptions(&cfg.Storage, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	reader := incident.NewReader(incident.NewLog("reader", "", time.Now), db, time.Now)
	return func() []incident.Incident {
		all, _ := reader.Incidents(t.Context(), incident.Query{}) // the database may be stopped
		return all
	}
}

// two are nodes with Redis and Postgres of the test's own, and rules of each fail mode.
func two(t *testing.T) (a, b *node, redis *testenv.RedisServer, postgres *testenv.PostgresServer, cfg [2]config.Serve) {
	t.Helper()
	redis = testenv.Redis(t)
	cfg[0], postgres = onPostgres(t)
	cfg[1] = settings(t)
	for i := range cfg {
		cfg[i].DatabaseURL.Value, cfg[i].RedisURL.Value, cfg[i].StoreTimeout = postgres.DSN("postgres"), redis.URL(), deadline
		cfg[i].Console = withConsole(t).Console
	}
	a = start(t, cfg[0])
	b = start(t, cfg[1])
	a.modes(40)
	eventually(t, "both nodes have the rules", func() bool { return b.ruleState()["version"] == float64(3) })
	return a, b, redis, postgres, cfg
}

// over reports whether all incidents have ended and nothing is counted any more.
func (s *story) over(all []incident.Incident) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(all) > 0 && !slices.ContainsFunc(all, func(i incident.Incident) bool { return i.End.IsZero() }) &&
		maps.Equal(told(all), s.rule)
}

func TestIncidents_RedisAndPostgresStoppedAtOnceAreToldAsCallersSawThem(t *testing.T) {
	t.Parallel()
	a, b, redis, postgres, cfg := two(t)
	find := stored(t, &cfg[0])
	s := &story{rule: map[string]incident.Rule{}}
	stop := s.press(a, b)
	defer stop()
	begun := time.Now().Add(-time.Minute)
	redis.Kill()
	eventually(t, "it is one incident of both nodes while it lasts", func() bool {
		all := find()
		return len(all) == 1 && all[0].Running() && len(all[0].Nodes) == 2 && all[0].Node == all[0].Nodes[0]
	})
	postgres.Stop()
	eventually(t, "fail modes decide without the database", func() bool { return s.each(150) })
	for _, n := range []*node{a, b} {
		eventually(t, "a node lists what is wrong, and stays ready", func() bool {
			status, doc := n.send("GET", "/readyz", "")
			codes, _ := doc["trouble"].([]any)
			return status == 200 && slices.Contains(codes, any("redis_unavailable")) &&
				slices.Contains(codes, any("rules_database_unavailable"))
		})
	}
	redis.Restart()
	eventually(t, "the breakers close", func() bool {
		return a.sum(`sluice_breaker_state\{.*\}`)+b.sum(`sluice_breaker_state\{.*\}`) == 0
	})
	stop()
	postgres.Restart()
	eventually(t, "the stored incidents are what callers saw", func() bool { return s.over(find()) })

	byKind := map[string]int{}
	for _, in := range find() {
		byKind[in.Kind]++
		if in.Begin.Before(begun) || in.End.Before(in.Begin) || in.Cause == "" || in.Stopped || in.Merged != 0 ||
			len(in.Nodes) != 2 {
			t.Errorf("incident %+v", in)
		}
		if in.Kind == incident.Breaker && (in.Server != redis.Addr || in.Opened < 1) {
			t.Errorf("incident of the breaker %+v", in)
		}
	}
	if byKind[incident.Breaker] != 1 || byKind[incident.Database] != 1 {
		t.Errorf("kinds %v", byKind)
	}
	if c := s.rule["local"]; c.Denied == 0 || c.Denied == c.Local {
		t.Errorf("the node's share of the limit should allow some and deny some: %+v", c)
	}
}

func TestIncidents_FrozenRedisAndNodesThatStopInTheMiddle(t *testing.T) {
	t.Parallel()
	a, b, redis, _, cfg := two(t)
	find := stored(t, &cfg[0])
	s := &story{rule: map[string]incident.Rule{}}
	stop := s.press(a, b)
	redis.Pause()
	eventually(t, "fail modes decide", func() bool { return s.each(60) })
	stop()
	a.stop()
	rows, err := b.database(t, &cfg[1]).Events(t.Context(), []string{incident.EventIncident}, time.Time{}, time.Now(), 10)
	i := slices.IndexFunc(rows, func(e incident.Event) bool { return strings.Contains(string(e.Data), `"stopped":true`) })
	if i < 0 || rows[i].Node != strings.TrimPrefix(a.url, "http://") ||
		!strings.Contains(string(rows[i].Data), `"kind":"breaker"`) || !strings.Contains(string(rows[i].Data), "timeout") {
		t.Fatalf("the node that stopped left %+v (%v)", rows, err)
	}
	a = start(t, cfg[0])
	stop = s.press(a, b)
	eventually(t, "fail modes decide again", func() bool { return s.each(120) })
	redis.Resume()
	eventually(t, "Redis decides", func() bool { return !s.ask(a, "open", "probe") && !s.ask(b, "open", "probe") })
	stop()
	eventually(t, "the stored incidents are what callers saw", func() bool { return s.over(find()) })

	m := &marks{changes: a.database(t, &cfg[0]), events: a.database(t, &cfg[0]),
		incidents: incident.NewReader(incident.NewLog("reader", "", time.Now), a.database(t, &cfg[0]), time.Now)}
	found, err := m.Marks(t.Context(), "local", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, mark := range found {
		texts = append(texts, mark.Kind+": "+mark.Text)
	}
	text := strings.Join(texts, "\n")
	for _, want := range []string{"change: version 1: created", "breaker: breaker of " + redis.Addr + " opened: timeout",
		"breaker: breaker of " + redis.Addr + " closed", "node: node " + strings.TrimPrefix(a.url, "http://") + " started",
		" stopped"} {
		if !strings.Contains(text, want) {
			t.Errorf("no mark %q in:\n%s", want, text)
		}
	}
	if strings.Count(text, "created") != 1 {
		t.Errorf("marks of other rules:\n%s", text)
	}
}

func (n *node) database(t *testing.T, cfg *config.Serve) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), databaseOptions(&cfg.Storage, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
