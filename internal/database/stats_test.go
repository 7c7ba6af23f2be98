package database

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
	"sluice/internal/history/incident"
	"sluice/rules"
)

// rowsOf are the rows of some parts, sorted.
func (d *DB) rowsOf(t *testing.T, rules []string, parts ...history.Part) []history.StoredRow {
	t.Helper()
	out := []history.StoredRow{}
	if err := d.ReadStats(t.Context(), rules, parts, history.Both, func(r *history.StoredRow) {
		one := *r
		one.Data, one.Tops = slices.Clone(r.Data), slices.Clone(r.Tops)
		out = append(out, one)
	}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b history.StoredRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Period, b.Period),
			cmp.Compare(a.Writer, b.Writer))
	})
	return out
}

// put stores rows of any hour, as if they had been written in it.
func (d *DB) put(t *testing.T, rows []history.LiveRow) {
	t.Helper()
	for some := range slices.Chunk(rows, statsBatch) {
		live := make([]liveRow, len(some))
		for i, r := range some {
			live[i] = liveRow{Rule: r.Rule, Hour: r.Hour, Writer: r.Writer, Data: r.Data, Tops: r.Tops}
		}
		if err := d.write.Create(live).Error; err != nil {
			t.Fatal(err)
		}
	}
}

// TestStats_ARowIsReplacedByItsWriter, which leaves out what it does not have, and only in the running hour and the
// ones
// before and after it.
func TestStats_ARowIsReplacedByItsWriter(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		write := func(rows ...history.LiveRow) int {
			t.Helper()
			leftOut, err := d.WriteStats(t.Context(), rows)
			if err != nil {
				t.Fatal(err)
			}
			return leftOut
		}
		var hour int64
		var leftOut int
		for again := true; again; { // an hour may end meanwhile
			var err error
			if hour, err = d.statsHour(d.read); err != nil || hour-time.Now().Unix()/3600 > 1 {
				t.Fatalf("the hour is %d, %v", hour, err)
			}
			if err := d.write.Exec("DELETE FROM stats_live").Error; err != nil {
				t.Fatal(err)
			}
			write(history.LiveRow{Writer: 7, Rule: "charges", Hour: hour, Data: []byte{1}, Tops: []byte{2}},
				history.LiveRow{Writer: 8, Rule: "charges", Hour: hour, Data: []byte{3}})
			leftOut = write(history.LiveRow{Writer: 7, Rule: "charges", Hour: hour, Data: []byte{4}},
				history.LiveRow{Writer: 7, Rule: "", Hour: hour - 1, Data: []byte{5}, Tops: []byte{6}},
				history.LiveRow{Writer: 7, Rule: "", Hour: hour - 2, Data: []byte{9}},
				history.LiveRow{Writer: 7, Rule: "ahead", Hour: hour + 1, Data: []byte{7}},
				history.LiveRow{Writer: 7, Rule: "", Hour: hour + 2, Data: []byte{9}})
			now, err := d.statsHour(d.read)
			again = err == nil && now != hour
		}
		if leftOut != 2 {
			t.Errorf("%d rows were left out, want those of other hours", leftOut)
		}
		all := history.Part{Kind: history.KindLive, First: hour - 3, Last: hour + 3}
		want := []history.StoredRow{{Writer: 7, Rule: "", Period: hour - 1, Data: []byte{5}, Tops: []byte{6}},
			{Writer: 7, Rule: "ahead", Period: hour + 1, Data: []byte{7}},
			{Writer: 7, Rule: "charges", Period: hour, Data: []byte{4}, Tops: []byte{2}},
			{Writer: 8, Rule: "charges", Period: hour, Data: []byte{3}}}
		if diff := gocmp.Diff(want, d.rowsOf(t, nil, all)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(want[:1], d.rowsOf(t, []string{"", "none"}, all)); diff != "" {
			t.Errorf("of one rule (-want +got):\n%s", diff)
		}
		var tops, data int
		for columns, n := range map[history.Columns]*int{history.OnlyTops: &tops, history.OnlyData: &data} {
			if err := d.ReadStats(t.Context(), nil, []history.Part{all}, columns, func(r *history.StoredRow) {
				if *n++; (r.Data != nil) != (columns == history.OnlyData) || (r.Tops != nil) != (columns == history.OnlyTops) {
					t.Errorf("columns %d: %+v", columns, r)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if tops != 2 || data != 4 {
			t.Errorf("%d rows with tops, %d with data; want 2 and 4", tops, data)
		}
		if n, err := d.FoldStats(t.Context(), 100); err != nil || n != 0 {
			t.Errorf("%d rows that may be written again were added up, %v", n, err)
		}
	})
}

// TestStats_AWriteThatTookHoursChangesNothing: the process did not run between the look at the clock and the write, and
// others have added up the rows of that hour. A clock of the database in a schema of its own jumps in between. Rows
// that processes still write are not added up by that clock alone.
func TestStats_AWriteThatTookHoursChangesNothing(t *testing.T) {
	t.Parallel()
	dsn := backends[0].dsn(t)
	d := open(t, dsn)
	for _, sql := range []string{"CREATE SCHEMA fake", "CREATE TABLE fake.clock (ahead INTERVAL)",
		"INSERT INTO fake.clock VALUES ('0 hours')",
		`CREATE FUNCTION fake.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE sql VOLATILE AS
			'SELECT pg_catalog.clock_timestamp() + ahead FROM fake.clock'`,
		`CREATE FUNCTION fake.jump() RETURNS TRIGGER LANGUAGE plpgsql AS
			'BEGIN UPDATE fake.clock SET ahead = ''5 hours''; RETURN NEW; END'`,
		"CREATE TRIGGER jump BEFORE INSERT ON stats_live FOR EACH ROW EXECUTE FUNCTION fake.jump()",
	} {
		if err := d.write.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
	between := "?"
	if strings.Contains(dsn, "?") {
		between = "&"
	}
	late := open(t, dsn+between+"search_path=fake,pg_catalog,public")
	hour, err := late.statsHour(late.read)
	if err != nil {
		t.Fatal(err)
	}
	rows := historytest.BusyHour(7, hour, 1, 1)
	if _, err := late.WriteStats(t.Context(), rows); !errors.Is(err, rules.ErrUnavailable) {
		t.Errorf("%v, want an error", err)
	}
	d.put(t, historytest.BusyHour(8, hour-1, 1, 1)) // and now the clock is five hours ahead
	if err := d.write.Exec("UPDATE fake.clock SET ahead = '5 hours'").Error; err != nil {
		t.Fatal(err)
	}
	if n, err := late.FoldStats(t.Context(), 1000); n != 0 || err != nil {
		t.Errorf("%d rows of hours that processes still write were added up by a clock that jumped, %v", n, err)
	}
	if n, err := d.foldBefore(t.Context(), hour, 1000); n == 0 || err != nil {
		t.Errorf("%d rows were added up, %v", n, err)
	}
	if left := d.rowsOf(t, nil, history.Part{Kind: history.KindLive, Last: math.MaxInt32}); len(left) != 0 {
		t.Errorf("%d rows were written", len(left))
	}
}

// TestStats_OldRowsAreAddedUpOnce: by several nodes at the same time, in parts, and also those that come later.
func TestStats_OldRowsAreAddedUpOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		const day, rules, writers = 20_000, 6, 5
		hours := []int64{day*24 + 3, day*24 + 4, day*24 + 23, (day + 1) * 24}
		var rows []history.LiveRow
		for _, hour := range hours {
			for w := range int64(writers) {
				rows = append(rows, historytest.BusyHour(w+1, hour, 60, rules)...)
			}
		}
		d.put(t, rows[:len(rows)/2])
		fold := func() {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for n, tries := 1, 0; n > 0 || tries < 20; tries++ {
						var err error
						if n, err = d.FoldStats(t.Context(), 17); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			for n := 1; n > 0; {
				var err error
				if n, err = d.FoldStats(t.Context(), 1000); err != nil {
					t.Fatal(err)
				}
			}
		}
		fold()
		d.put(t, rows[len(rows)/2:])
		fold()
		if left := d.rowsOf(t, nil, history.Part{Kind: history.KindLive, Last: math.MaxInt32}); len(left) != 0 {
			t.Errorf("%d rows of processes are left", len(left))
		}
		other := historytest.NewStore(time.Now)
		other.Put(rows)
		for n := 1; n > 0; {
			n, _ = other.FoldStats(t.Context(), 1_000_000)
		}
		sums := func(s history.Store) map[string]history.Figures {
			r := history.NewReader(history.ReaderOptions{Live: history.NewLiveReader(history.NewMemory(time.Now), time.Now),
				Store: s, Own: history.NewOwn(99, history.NewRecorder()), Now: time.Now,
				Exists: func(string) bool { return true }})
			out := map[string]history.Figures{}
			for _, step := range []time.Duration{time.Hour, history.Day} {
				got, err := r.Stats(t.Context(), history.Query{By: history.ByRule, Series: true, Step: step,
					From: time.Unix(day*86400, 0), To: time.Unix((day+3)*86400, 0)})
				if err != nil || got.Partial != nil {
					t.Fatal(err, got.Partial)
				}
				for i := range got.Series {
					for _, p := range got.Series[i].Points {
						out[fmt.Sprint(step, got.Series[i].Rule, p.At)] = p.Figures
					}
				}
			}
			return out
		}
		want, got := sums(other), sums(d)
		if diff := gocmp.Diff(want, got); diff != "" || len(want) < 2*rules {
			t.Errorf("%d sums (-want +got):\n%s", len(want), diff)
		}
		for kind, rows := range map[history.Kind]int{history.KindMinutes: 4, history.KindHours: 2, history.KindDays: 1} {
			if got := d.rowsOf(t, []string{""}, history.Part{Kind: kind, Last: math.MaxInt32}); len(got) != rows ||
				(got[0].Tops != nil) != (kind != history.KindDays) {
				t.Errorf("%d rows of kind %d, want %d", len(got), kind, rows)
			}
		}
		if n, err := d.CleanStats(t.Context(), history.KindMinutes, hours[2], 3); err != nil || n != 3 {
			t.Errorf("cleaned %d, %v; want 3", n, err)
		}
		if n, err := d.CleanStats(t.Context(), history.KindMinutes, hours[2], 100_000); err != nil ||
			n != 2*(rules+1+writers)-3 {
			t.Errorf("cleaned %d, %v; want the rest", n, err)
		}
	})
}

func TestEvents_AreReplacedFoundAndCleaned(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		one := incident.Event{ID: "a-1", Kind: incident.EventIncident, At: at, Node: "a", Data: []byte(`{"n":1}`)}
		two := incident.Event{ID: "a-2", Kind: incident.EventNodeStarted, At: at.Add(time.Second), End: at.Add(time.Second),
			Node: "a"}
		again := one
		again.Data, again.End = []byte(`{"n":2}`), at.Add(time.Minute)
		for _, batch := range [][]incident.Event{nil, {one, two}, {again}} {
			if err := d.AddEvents(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		both := []string{incident.EventIncident, incident.EventNodeStarted}
		for name, tt := range map[string]struct {
			kinds    []string
			from, to time.Time
			limit    int
			want     []incident.Event
		}{
			"both":         {both, at, at.Add(time.Hour), 10, []incident.Event{two, again}},
			"newest":       {both, at, at.Add(time.Hour), 1, []incident.Event{two}},
			"first second": {both, at, at.Add(time.Second), 10, []incident.Event{again}},
			"still lasted": {both, at.Add(30 * time.Second), at.Add(time.Hour), 10, []incident.Event{again}},
			"over":         {both, at.Add(2 * time.Minute), at.Add(time.Hour), 10, []incident.Event{}},
			"of a kind":    {both[1:], at, at.Add(time.Hour), 10, []incident.Event{two}},
		} {
			got, err := d.Events(ctx, tt.kinds, tt.from, tt.to, tt.limit)
			if diff := gocmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%s (-want +got):\n%s%v", name, diff, err)
			}
		}
		lasting := incident.Event{ID: "b-1", Kind: incident.EventIncident, At: at, Node: "b"}
		if err := d.AddEvents(ctx, []incident.Event{lasting}); err != nil {
			t.Fatal(err)
		}
		got, err := d.Events(ctx, both, at.Add(time.Hour), at.Add(2*time.Hour), 10)
		if diff := gocmp.Diff([]incident.Event{lasting}, got); err != nil || diff != "" {
			t.Errorf("lasting (-want +got):\n%s%v", diff, err)
		}
		if n, err := d.CleanEvents(ctx, at.Add(time.Second), 10); err != nil || n != 2 {
			t.Errorf("cleaned %d, %v", n, err)
		}
	})
}
