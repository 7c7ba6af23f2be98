package database

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/history"
	"sluice/internal/history/incident"
)

func TestStats_OneNodeWrites(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		held, written, err := d.ClaimStats(ctx, "a", time.Minute)
		if err != nil || !held || !written.IsZero() {
			t.Fatalf("the first claim: %v, %s, %v", held, written, err)
		}
		at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		rows := []history.StoredRow{{Kind: history.KindMinutes, Rule: "", Period: 7, Data: []byte{1}},
			{Kind: history.KindMinutes, Rule: "charges", Period: 7, Data: []byte{2}}}
		if held, err := d.WriteStats(ctx, "a", rows, at); err != nil || !held {
			t.Fatalf("write: %v, %v", held, err)
		}
		if held, written, err := d.ClaimStats(ctx, "b", time.Minute); err != nil || held || !written.Equal(at) {
			t.Errorf("b claims the lease of a: %v, %s, %v", held, written, err)
		}
		rows[1].Data = []byte{3}
		if held, err := d.WriteStats(ctx, "b", rows[1:], at.Add(time.Minute)); err != nil || held {
			t.Errorf("b writes: %v, %v", held, err)
		}
		if held, _, err := d.ClaimStats(ctx, "a", -time.Minute); err != nil || !held {
			t.Errorf("a claims again: %v, %v", held, err)
		}
		if held, _, err := d.ClaimStats(ctx, "b", time.Minute); err != nil || !held {
			t.Errorf("b claims a lease that has ended: %v, %v", held, err)
		}
		if held, err := d.WriteStats(ctx, "a", rows[1:], at); err != nil || held {
			t.Errorf("a writes without the lease: %v, %v", held, err)
		}
		if held, err := d.WriteStats(ctx, "b", rows[1:], at.Add(time.Minute)); err != nil || !held {
			t.Errorf("b writes: %v, %v", held, err)
		}
		if written, err := d.WrittenStats(ctx); err != nil || !written.Equal(at.Add(time.Minute)) {
			t.Errorf("written until %s, %v", written, err)
		}
		got, err := d.ReadStats(ctx, history.KindMinutes, nil, 7, 7)
		if diff := cmp.Diff(rows, got); err != nil || diff != "" {
			t.Errorf("rows (-want +got):\n%s%v", diff, err)
		}
	})
}

func TestStats_RowsAreFoundAndCleaned(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		if _, _, err := d.ClaimStats(ctx, "a", time.Minute); err != nil {
			t.Fatal(err)
		}
		var rows []history.StoredRow
		for rule := range 30 {
			for period := range int64(100) {
				rows = append(rows, history.StoredRow{Kind: history.KindHours, Rule: fmt.Sprintf("rule-%02d", rule), Period: period,
					Data: []byte(fmt.Sprint(rule, period))})
			}
		}
		if held, err := d.WriteStats(ctx, "a", rows, time.Now()); err != nil || !held { // more than one transaction
			t.Fatalf("write: %v, %v", held, err)
		}
		got, err := d.ReadStats(ctx, history.KindHours, []string{"rule-07", "rule-03", "none"}, 98, 120)
		want := []history.StoredRow{rows[398], rows[399], rows[798], rows[799]}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("rows (-want +got):\n%s%v", diff, err)
		}
		if got, err := d.ReadStats(ctx, history.KindDays, nil, 0, 200); err != nil || len(got) != 0 {
			t.Errorf("of another kind: %v, %v", got, err)
		}
		if n, err := d.CleanStats(ctx, history.KindHours, 99, 100); err != nil || n != 100 {
			t.Errorf("cleaned %d, %v; want 100", n, err)
		}
		if n, err := d.CleanStats(ctx, history.KindHours, 99, 100_000); err != nil || n != 30*99-100 {
			t.Errorf("cleaned %d, %v; want the rest", n, err)
		}
		if got, err := d.ReadStats(ctx, history.KindHours, nil, 0, 200); err != nil || len(got) != 30 {
			t.Errorf("%d rows are left, %v; want 30", len(got), err)
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
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%s (-want +got):\n%s%v", name, diff, err)
			}
		}
		lasting := incident.Event{ID: "b-1", Kind: incident.EventIncident, At: at, Node: "b"}
		if err := d.AddEvents(ctx, []incident.Event{lasting}); err != nil {
			t.Fatal(err)
		}
		got, err := d.Events(ctx, both, at.Add(time.Hour), at.Add(2*time.Hour), 10)
		if diff := cmp.Diff([]incident.Event{lasting}, got); err != nil || diff != "" {
			t.Errorf("lasting (-want +got):\n%s%v", diff, err)
		}
		if n, err := d.CleanEvents(ctx, at.Add(time.Second), 10); err != nil || n != 2 {
			t.Errorf("cleaned %d, %v", n, err)
		}
	})
}
