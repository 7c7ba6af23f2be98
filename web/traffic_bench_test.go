package web_test

import (
	"context"
	varint "encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/webtest"
)

// longStats has the figures of 10,000 rules for 90 days, packed as the rule database has them, in memory. Nothing is
// with the counters.
type longStats struct {
	history.Store
	written time.Time
	rows    map[history.Kind][]history.StoredRow
}

// slotsOf is a packed row of n periods: their number, which figures they have, and the peak, allowed and denied ones.
func slotsOf(n int, seed uint64) []byte {
	row := []byte{1}
	for i := range n {
		row = append(row, byte(i), 0b111)
		for _, v := range []uint64{400 + seed%97, 20_000 + seed*uint64(i)%9000, 300 + seed*uint64(i)%701} {
			row = varint.AppendUvarint(row, v)
		}
	}
	return row
}

func newLongStats(list []rules.Rule, now time.Time) *longStats {
	s := &longStats{written: now.Truncate(time.Minute), rows: map[history.Kind][]history.StoredRow{}}
	add := func(kind history.Kind, block, period time.Duration, n int) {
		for i := range len(list) + 1 {
			name := ""
			if i > 0 {
				name = list[i-1].Name
			}
			first := now.Add(-block).Unix() / int64(period/time.Second)
			for p := first; p <= now.Unix()/int64(period/time.Second); p++ {
				s.rows[kind] = append(s.rows[kind], history.StoredRow{Kind: kind, Rule: name, Period: p, Data: slotsOf(n, uint64(i))})
			}
		}
	}
	add(history.KindDays, 90*history.Day, 32*history.Day, 32)
	add(history.KindHours, history.Day, history.Day, 24)
	add(history.KindMinutes, time.Hour, time.Hour, 60)
	return s
}

func (s *longStats) WrittenStats(context.Context) (time.Time, error) { return s.written, nil }

func (s *longStats) ReadStats(_ context.Context, kind history.Kind, names []string, first, last int64) (
	out []history.StoredRow, _ error) {
	for i := range s.rows[kind] {
		if r := &s.rows[kind][i]; r.Period >= first && r.Period <= last && (names == nil || slices.Contains(names, r.Rule)) {
			out = append(out, *r)
		}
	}
	return out, nil
}

// nothingRecent is a history.Recent that has nothing.
type nothingRecent struct{ history.Recent }

func (nothingRecent) Minutes(context.Context, int64, int64) ([]history.RecentMinute, error) {
	return nil, nil
}

func (nothingRecent) Tops(context.Context, int64, []string) (map[string]history.Tops, error) {
	return nil, nil
}

// BenchmarkTraffic_NinetyDays is how long the server takes over the page of traffic of 90 days with 10,000 rules, from
// the packed rows on, without the database.
func BenchmarkTraffic_NinetyDays(b *testing.B) {
	w := world(b, webtest.Full)
	w.Rules.List = webtest.ManyRules(10_000)
	if err := w.Compile(); err != nil {
		b.Fatal(err)
	}
	store := newLongStats(w.Rules.List, w.Clock.Now())
	d := w.Deps(nil)
	d.Stats = history.NewReader(history.ReaderOptions{Recent: nothingRecent{}, Store: store, Keep: 90 * history.Day,
		Exists: func(string) bool { return true }, Now: w.Clock.Now})
	if err := w.Serve(d); err != nil {
		b.Fatal(err)
	}
	browser := w.As(access.RoleViewer)
	for _, path := range []string{"?range=90d", "?range=1h", "?range=90d&rule=" + w.Rules.List[7].Name + "&by=key",
		"?range=90d&compare=previous"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				w.Clock.Add(2 * time.Second) // no answer is reused
				if page := browser.Get("/console/traffic" + path); page.Code != http.StatusOK || !page.Has("allowed") {
					b.Fatal(fmt.Sprint(page.Code))
				}
			}
		})
	}
}
