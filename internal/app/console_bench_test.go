//go:build measure

package app

import (
	"context"
	dbsql "database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/history/historytest"
	"sluice/internal/history/incident"
	"sluice/internal/testenv"
	"sluice/rules"
	"sluice/web/webtest"
)

const (
	// figuredRules have figures for ninety days. Each has those of one of differentRules, and those of the first
	// countedKeys have keys, as on a node.
	figuredRules, differentRules, countedKeys = 10_000, 100, 1000
	figuredDays                               = 90
	// benchEvents are incidents of the last month.
	benchEvents = 2000
	// triedRule is a rule on trial.
	triedRule = 7
)

// BenchmarkConsole_Figures is how long the server takes over the pages with figures when 10,000 rules have had
// requests in every minute for ninety days: in the rule database, and the last minutes with the counters. Only the
// rules themselves are canned. A page is asked for as the first one since the start, and again two seconds after
// another.
func BenchmarkConsole_Figures(b *testing.B) {
	for _, on := range []struct {
		name   string
		driver string
		dsn    func(b *testing.B) string
		board  func(b *testing.B, now func() time.Time) history.Board
	}{
		{"Postgres and Redis", "pgx", func(b *testing.B) string { return testenv.Postgres(b) },
			func(b *testing.B, _ func() time.Time) history.Board {
				client := redis.NewClient(&redis.Options{Addr: testenv.Redis(b).Addr})
				b.Cleanup(func() { _ = client.Close() })
				return history.NewRedisBoard(client, "sl:")
			}},
		{"SQLite and memory", "sqlite", func(b *testing.B) string { return filepath.Join(b.TempDir(), "sluice.db") },
			func(_ *testing.B, now func() time.Time) history.Board { return history.NewMemory(now) }},
	} {
		b.Run(on.name, func(b *testing.B) {
			w := webtest.Start(b, webtest.Full)
			w.Rules.List = webtest.ManyRules(figuredRules)
			if err := w.Compile(); err != nil {
				b.Fatal(err)
			}
			dsn := on.dsn(b)
			db, err := database.Open(b.Context(), database.Options{DSN: dsn, Now: w.Clock.Now, CallTimeout: 20 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = db.Close() })
			if err := db.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			fillFigures(b, w, db, on.driver, dsn)
			board := on.board(b, w.Clock.Now)
			fillBoard(b, w, board)
			c := &figured{World: w, db: db, board: board}
			c.forget()
			d := w.Deps(nil)
			d.Stats, d.Fleet, d.Denials, d.Trials = c, c, c, c
			d.Incidents = incident.NewReader(incident.NewLog("a", "", w.Clock.Now), db, w.Clock.Now)
			d.Marks = &marks{changes: db, events: db, incidents: d.Incidents}
			if err := w.Serve(d); err != nil {
				b.Fatal(err)
			}
			c.measure(b)
		})
	}
}

// figured is a console whose readers can be replaced by ones that have read nothing yet.
type figured struct {
	*webtest.World
	db    *database.DB
	board history.Board

	mu      sync.Mutex
	figures *history.Reader
	live    *history.LiveReader
}

// forget makes readers that have read nothing.
func (c *figured) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = history.NewLiveReader(c.board, c.Clock.Now)
	c.figures = history.NewReader(history.ReaderOptions{Live: c.live, Store: c.db, Now: c.Clock.Now,
		Own: history.NewOwn(1<<40, history.NewRecorder()), Exists: func(string) bool { return true }})
}

func (c *figured) Stats(ctx context.Context, q history.Query) (history.Result, error) {
	c.mu.Lock()
	r := c.figures
	c.mu.Unlock()
	return r.Stats(ctx, q)
}

func (c *figured) reader() *history.LiveReader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

func (c *figured) Live(ctx context.Context) history.Live { return c.reader().Live(ctx) }

func (c *figured) DeniedKeys(ctx context.Context) ([]history.KeyDenials, error) {
	return c.reader().DeniedKeys(ctx)
}

func (c *figured) Requests(ctx context.Context, f history.Filter, n int) ([]history.Request, error) {
	return c.reader().Requests(ctx, f, n)
}

func (c *figured) Denials(ctx context.Context, f history.Filter, n int) ([]history.Request, error) {
	return c.reader().Denials(ctx, f, n)
}

func (c *figured) Request(ctx context.Context, id string) (history.Request, bool, error) {
	return c.reader().Request(ctx, id)
}

func (c *figured) Trial(ctx context.Context, rule int64, versions []int64) (history.TrialCounts, error) {
	c.mu.Lock()
	r := c.figures
	c.mu.Unlock()
	return r.Trial(ctx, rule, versions)
}

func (c *figured) measure(b *testing.B) {
	browser := c.As(access.RoleAdmin)
	plain := c.As(access.RoleAdmin)
	browser.Header.Set("Accept-Encoding", "gzip") // as browsers do
	name := c.Rules.List[0].Name
	for _, page := range []string{
		"", "?range=24h", "?range=90d", "/rules", "/rules?sort=denied", "/rules/8", "/rules/8?range=90d",
		"/traffic", "/traffic?range=24h", "/traffic?range=7d", "/traffic?range=90d", "/traffic?range=90d&compare=previous",
		"/traffic?range=24h&by=key&rule=" + name, "/traffic?range=90d&by=key&rule=" + name, "/traffic?range=24h&by=node",
		"/requests", "/requests?rule=" + name, "/denials", "/denials?key=user:42",
		"/keys?rule=" + name + "&key=user:42", fmt.Sprintf("/rules/%d/turn?to=promote", triedRule),
		"/incidents", "/search?q=charges",
	} {
		for _, again := range []bool{false, true} {
			when := "first"
			if again {
				when = "again"
			}
			b.Run("console"+strings.ReplaceAll(page, "/", " ")+"/"+when, func(b *testing.B) {
				var took []time.Duration
				sent, used := 0, cpu()
				for b.Loop() {
					if !again {
						c.forget()
					}
					c.Clock.Add(2 * time.Second)
					begin := time.Now()
					got := browser.Do(http.MethodGet, "/console"+page, nil)
					took = append(took, time.Since(begin))
					if sent = len(got.Body); got.Code != http.StatusOK {
						b.Fatal(got.Code)
					}
					if len(took)%15 == 0 { // the figures end where they did
						c.Clock.Add(-30 * time.Second)
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64((cpu()-used).Microseconds())/1000/float64(len(took)), "cpu-ms/op")
				b.ReportMetric(float64(sent)/1000, "kB-sent")
				b.ReportMetric(float64(len(plain.Get("/console"+page).Body))/1000, "kB-unpacked")
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			})
		}
	}
}

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fillFigures writes ninety days of figures as a node does, those of differentRules, and copies them to all rules.
func fillFigures(b *testing.B, w *webtest.World, db *database.DB, driver, dsn string) {
	ctx, end := b.Context(), w.Clock.Now()
	var events []incident.Event
	for i := range benchEvents {
		at := end.Add(-time.Duration(i) * 20 * time.Minute)
		events = append(events, incident.Event{ID: fmt.Sprint(i), Kind: incident.EventIncident, At: at,
			End:  at.Add(time.Minute),
			Node: "10.0.0.1:8080", Data: []byte(`{"kind":"breaker","server":"10.0.0.7:6379","cause":"timeout",` +
				`"rules":[{"rule":"charges","local":620,"closed":14}]}`)})
	}
	if err := db.AddEvents(ctx, events); err != nil {
		b.Fatal(err)
	}
	pool, err := dbsql.Open(driver, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	exec := func(statement string, args ...any) {
		b.Helper()
		if _, err := pool.ExecContext(ctx, statement, args...); err != nil {
			b.Fatal(err)
		}
	}
	last := end.Unix() / 3600
	for hour := last - figuredDays*24; hour <= last; hour++ {
		minutes := 60
		if hour == last {
			minutes = end.Minute()
		}
		for _, r := range historytest.BusyHour(1, hour, minutes, differentRules) {
			exec("INSERT INTO stats_live (rule, hour, writer, data, tops) VALUES ($1, $2, $3, $4, $5)", r.Rule, r.Hour, r.Writer,
				r.Data, r.Tops)
		}
		if hour == last-history.FoldAfter-1 { // the others are not old enough
			for n := 1; n > 0; {
				if n, err = db.FoldStats(ctx, 2000); err != nil {
					b.Fatal(err)
				}
			}
			oldest := end.Add(-history.MinutesKept).Unix() / 3600
			if _, err := db.CleanStats(ctx, history.KindMinutes, oldest, 10_000_000); err != nil {
				b.Fatal(err)
			}
		}
	}
	exec("CREATE TABLE names (name TEXT, template TEXT, n INTEGER)")
	for some := range slices.Chunk(w.Rules.List, 500) {
		var rows []string
		for i := range some {
			rows = append(rows, fmt.Sprintf("('%s','%s',%d)", some[i].Name, historytest.Name(int(some[i].ID)%differentRules),
				some[i].ID))
		}
		exec("INSERT INTO names VALUES " + strings.Join(rows, ","))
	}
	exec("CREATE INDEX names_template ON names (template)")
	tops := fmt.Sprintf("CASE WHEN n.n <= %d THEN s.tops END", countedKeys)
	exec("INSERT INTO stats SELECT s.kind, n.name, s.period, s.data, " + tops + " FROM names n JOIN stats s " +
		"ON s.rule = n.template ORDER BY s.period, n.name")
	exec("INSERT INTO stats_live SELECT n.name, s.hour, s.writer, s.data, " + tops + " FROM names n JOIN stats_live s " +
		"ON s.rule = n.template ORDER BY s.hour, n.name")
	for _, table := range []string{"stats", "stats_live"} {
		exec("DELETE FROM " + table + " WHERE rule IN (SELECT template FROM names)")
	}
	exec("DROP TABLE names")
	if driver == "pgx" {
		exec("VACUUM ANALYZE stats, stats_live")
	}
}

// fillBoard posts what two nodes decided in the last ten minutes.
func fillBoard(b *testing.B, w *webtest.World, board history.Board) {
	end := w.Clock.Now()
	now := end.Add(-10*time.Minute - time.Second) // the last post of a minute has all of it, as that of a node
	type node struct {
		recorder  *history.Recorder
		publisher *history.Publisher
	}
	var nodes []node
	for _, name := range []string{"a", "b"} {
		r := history.NewRecorder()
		nodes = append(nodes, node{r, history.NewPublisher(history.PublisherOptions{Recorder: r, Board: board,
			Status: func() history.Status { return history.Status{ID: name, Address: name + ":8080"} },
			Now:    func() time.Time { return now }})})
	}
	for ; !now.After(end); now = now.Add(5 * time.Second) {
		for n := range nodes {
			for i := range w.Rules.List {
				count(nodes[n].recorder, &w.Rules.List[i])
			}
			nodes[n].publisher.Post(b.Context())
		}
	}
	fillSamples(b, w, board)
}

// fillSamples appends as many sampled requests as the board stores.
func fillSamples(b *testing.B, w *webtest.World, board history.Board) {
	for list, n := range map[string]int{"recent": 2000, "allowed": 8000} {
		var lines []string
		for i := range n {
			rule := &w.Rules.List[i%figuredRules]
			line, err := json.Marshal(history.Request{ID: fmt.Sprint(list, i), Node: "a", Allowed: list == "allowed",
				At: w.Clock.Now().Add(-time.Duration(n-i) * 50 * time.Millisecond).UnixMilli(), Rule: rule.Name,
				Key: "user:42", Mode: "enforce", Bucket: rule.Name + "\x1fuser:42", Status: 429, Limit: 100, Weight: 1,
				Method: "POST", Route: "/v1/charges", Host: "api.example.com", IP: "192.0.2.7", User: "42"})
			if err != nil {
				b.Fatal(err)
			}
			lines = append(lines, string(line))
		}
		if err := board.Append(b.Context(), list, lines, n); err != nil {
			b.Fatal(err)
		}
	}
}

func count(r *history.Recorder, rule *rules.Rule) {
	if rule.ID == triedRule {
		r.Trial(history.Trial{Rule: rule.ID, Version: rule.Version}, history.Tried{Was: true, Compared: true},
			func() string { return "user:42" })
	}
	d := history.Decided{Allowed: rule.ID%7 != 0}
	r.Request(&d)
	r.Limit(rule.Name, &d)
	r.Top(rule.Name, history.ByKey, "user:42", d.Allowed, 1)
}
