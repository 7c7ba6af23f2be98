package app

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/testenv"
)

// onReplica are two nodes with a console each: one on a primary and one on a streaming replica of it.
type onReplica struct {
	primary, replica     *testenv.PostgresServer
	first, second        *node
	firstCfg, replicaCfg config.Serve
}

func newOnReplica(t *testing.T) *onReplica {
	t.Helper()
	o := &onReplica{}
	o.firstCfg, o.primary = onPostgres(t)
	o.firstCfg.Listen = testenv.FreeAddr(t)
	o.firstCfg.Console = config.Console{Console: true, SessionIdle: time.Hour}
	_, secret, err := CreateToken(t.Context(), o.firstCfg.Storage,
		NewToken{Name: "admin", Scopes: []access.Scope{access.ScopeAdmin}, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o.replica = o.primary.Replica(t)
	o.replicaCfg = o.firstCfg
	o.replicaCfg.DataDir, o.replicaCfg.Listen = t.TempDir(), testenv.FreeAddr(t)
	o.replicaCfg.DatabaseURL.Value, o.replicaCfg.PrimaryURL = o.replica.DSN("postgres"), "http://"+o.firstCfg.Listen+"/"
	o.replicaCfg.RegionToken.Value = secret
	o.first, o.second = startWith(t, o.firstCfg, secret), startWith(t, o.replicaCfg, secret)
	return o
}

// ruleLimits waits until a rule for all users is in force.
func ruleLimits(n *node, count float64) {
	n.t.Helper()
	eventually(n.t, "the rule is in force", func() bool {
		limits, _ := n.check(`{"user":"nobody","weight":0}`)["limits"].([]any)
		if len(limits) != 1 {
			return count == 0 && len(limits) == 0
		}
		one, _ := limits[0].(map[string]any)
		return one["limit"] == count
	})
}

func TestReplica_NodesOnAReadReplicaFollowAndRefuseChanges(t *testing.T) {
	t.Parallel()
	o := newOnReplica(t)
	o.first.create(perUser)
	ruleLimits(o.second, 1)
	if !o.second.allowed(`{"user":"ada"}`) || o.second.allowed(`{"user":"ada"}`) {
		t.Error("a node on a read replica does not decide by the rules of the primary")
	}
	if status, _ := o.second.send(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("/readyz: %d", status)
	}
	at := "http://" + o.firstCfg.Listen
	for name, change := range map[string][3]string{
		"a new rule":  {http.MethodPost, "/ratelimit/rules", `{"name":"other","scope":"user","limit":1,"window_ms":1000}`},
		"an edit":     {http.MethodPatch, "/ratelimit/rules/1", `{"limit":5}`},
		"a deletion":  {http.MethodDelete, "/ratelimit/rules/1", ""},
		"an override": {http.MethodPost, "/ratelimit/rules/1/overrides", `{"key":"user:ada","limit":9}`},
	} {
		status, problem := o.second.send(change[0], change[1], change[2])
		detail, _ := problem["detail"].(string)
		if status != http.StatusServiceUnavailable || problem["type"] != "/problems/database-replica" ||
			problem["primary_url"] != at || !strings.Contains(detail, at) {
			t.Errorf("%s: %d %v, want 503 that names %s", name, status, problem, at)
		}
	}
	if got := o.second.metric("sluice_database_replica") - o.first.metric("sluice_database_replica"); got != 1 {
		t.Errorf("sluice_database_replica: %v more on the replica, want 1", got)
	}

	// A command says where to write, like a node.
	if _, _, err := CreateToken(t.Context(), o.replicaCfg.Storage,
		NewToken{Name: "late", Scopes: []access.Scope{access.ScopeCheck}, By: "test"}, time.Now()); err == nil ||
		!strings.HasSuffix(err.Error(), "make changes at "+at) {
		t.Errorf("a token at the replica: %v, want an error that names %s", err, at)
	}

	// It logs nothing of what concerns only nodes, which follow the database.
	where, said := databaseOptions(&o.replicaCfg.Storage, nil), &buffer{}
	where.Log = slog.New(slog.NewTextHandler(said, nil))
	db, err := database.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(t.Context()); err != nil || !db.Replica() || said.String() != "" {
		t.Errorf("a command: %v, knows of the replica: %v, logs %s", err, db.Replica(), said.String())
	}

	// A token that is revoked at the primary ends here too.
	created, secret, err := CreateToken(t.Context(), o.firstCfg.Storage,
		NewToken{Name: "caller", Scopes: []access.Scope{access.ScopeCheck}, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	caller := *o.second
	caller.token = secret
	status := func() int {
		s, _ := caller.send(http.MethodPost, "/ratelimit/check", `{"user":"bob"}`)
		return s
	}
	eventually(t, "the token is in force", func() bool { return status() == http.StatusOK })
	if _, err := RevokeToken(t.Context(), o.firstCfg.Storage, created.Name, "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token is revoked", func() bool { return status() == http.StatusUnauthorized })

	// Nobody tried what Postgres refuses on a replica, such as a change or LISTEN.
	if log := o.replica.Log(); strings.Contains(log, "cannot execute") {
		t.Errorf("the replica refused a statement:\n%s", log)
	}
	log := o.second.log.String()
	if strings.Count(log, "the rules database is a read replica: this node follows it") != 1 {
		t.Errorf("the log does not say once that the database is a read replica:\n%s", log)
	}
}

// TestReplica_FiguresAreOfThePrimaryToo: a node at a replica writes nothing, but what it decided is not lost.
func TestReplica_FiguresAreOfThePrimaryToo(t *testing.T) {
	t.Parallel()
	o := newOnReplica(t)
	o.first.create(perUser)
	ruleLimits(o.second, 1)
	for range 3 {
		o.second.check(`{"user":"ada"}`)
	}
	sums := func(n *node) history.Figures {
		h := n.figures(url.Values{"rule": {"r"}, "step": {"minute"}})
		return h.sums()["r"]
	}
	eventually(t, "the node itself shows them", func() bool { return sums(o.second).Denied == 2 })
	o.second.stop() // it sends everything
	if f := sums(o.first); f.Allowed < 1 || f.Denied != 2 {
		t.Errorf("at the primary: %+v", f)
	}
	if log := o.second.log.String(); strings.Contains(log, "figures c") {
		t.Errorf("the log says that figures are missing:\n%s", log)
	}
}

func TestReplica_TheConsoleIsReadOnly(t *testing.T) {
	t.Parallel()
	o := newOnReplica(t)
	o.first.create(perUser)
	p := asAdmin(t, o.first) // the consoles have one host name, so the browser shows its session to both
	ruleLimits(o.second, 1)
	elsewhere := `http://` + o.firstCfg.Listen + `/console`
	body := p.shows(o.second.url+"/console/rules/1", http.StatusOK,
		texts(`This console is read-only`, elsewhere+`/rules/1"`, `grace`)...)
	if strings.Contains(body, "/rules/1/edit") {
		t.Error("the page of a rule offers to edit it")
	}
	for _, path := range []string{"/console", "/console/rules", "/console/people", "/console/audit", "/console/settings",
		"/console/traffic", "/console/alerts", "/console/incidents"} {
		p.shows(o.second.url+path, http.StatusOK, texts(`This console is read-only`)...)
	}
	p.shows(o.second.url+"/console/rules/1/edit", http.StatusServiceUnavailable,
		texts(`This console is read-only`, elsewhere+`/rules/1/edit"`)...)
	status, body := p.post(o.second.url+"/console/rules/1/delete", url.Values{"version": {"1"}})
	if status != http.StatusServiceUnavailable || !strings.Contains(body, elsewhere) {
		t.Errorf("deleting a rule: %d, want 503 with a link to the other console", status)
	}

	stranger := newPerson(t, o.second)
	stranger.shows(o.second.url+"/console", http.StatusOK,
		texts(`Sign in elsewhere`, elsewhere+`/sign-in\?next=%2Fconsole"`)...)
	form := url.Values{"name": {"grace"}, "password": {adminPassword}}
	if status, body := stranger.post(o.second.url+"/console/sign-in", form); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, elsewhere) {
		t.Errorf("signing in: %d, want 503 with a link to the other console", status)
	}

	// Signing out ends the session on the node, and at the primary on all.
	if status, body := p.post(o.second.url+"/console/sign-out", nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "Signed out in this browser") {
		t.Errorf("signing out: %d", status)
	}
	p.shows(o.second.url+"/console", http.StatusOK, texts(`Sign in elsewhere`)...)
}

func TestReplica_APromotionAndADemotionAreNoticed(t *testing.T) {
	t.Parallel()
	o := newOnReplica(t)
	o.first.create(perUser)
	ruleLimits(o.second, 1)
	o.primary.Stop()
	o.replica.Promote()
	edit := func(n *node, limit string) func() bool {
		return func() bool {
			status, _ := n.send(http.MethodPatch, "/ratelimit/rules/1", `{"limit":`+limit+`}`)
			return status == http.StatusOK
		}
	}
	eventually(t, "the promoted replica accepts a change", edit(o.second, "2"))
	ruleLimits(o.second, 2)
	o.primary.Follow(o.replica)
	ruleLimits(o.first, 2)
	eventually(t, "the former primary refuses changes", func() bool {
		status, problem := o.first.send(http.MethodPatch, "/ratelimit/rules/1", `{"limit":7}`)
		return status == http.StatusServiceUnavailable && problem["type"] == "/problems/database-replica"
	})
	eventually(t, "a change", edit(o.second, "3"))
	ruleLimits(o.first, 3)
}

func TestReplica_ANodeWaitsForTheSchema(t *testing.T) {
	t.Parallel()
	cfg, primary := onPostgres(t)
	replica := primary.Replica(t)
	onIt := cfg
	onIt.DataDir, onIt.DatabaseURL.Value = t.TempDir(), replica.DSN("postgres")
	n := start(t, onIt)
	status, _ := n.send(http.MethodGet, "/readyz", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(n.log.String(), "sluice migrate up") {
		t.Errorf("without a schema: readyz %d, and the log does not say what to do\n%s", status, n.log)
	}
	if _, err := MigrateUp(t.Context(), cfg.Storage); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", func() bool {
		status, _ := n.send(http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	})
}
