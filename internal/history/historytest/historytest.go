// Package historytest has a store in memory, and figures of busy rules for measurements.
//
// One worked example: with s := historytest.NewStore(time.Now), a history.Writer writes to s, and a history.Reader
// reads
// from it, as they do with the rules database.
package historytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sluice/internal/history"
)

// Store is a history.Store in memory, whose clock is Now. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu             sync.Mutex
	err            error
	reads, written int
	live           map[liveKey]history.StoredRow
	rows           map[rowKey]history.StoredRow
}

type liveKey struct {
	rule         string
	hour, writer int64
}

type rowKey struct {
	kind   history.Kind
	rule   string
	period int64
}

var _ history.Store = (*Store)(nil)

// NewStore creates an empty store.
func NewStore(now func() time.Time) *Store {
	return &Store{now: now, live: map[liveKey]history.StoredRow{}, rows: map[rowKey]history.StoredRow{}}
}

// Fail makes every call fail with err, nil for none.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Reads is how often ReadStats was called.
func (s *Store) Reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// Written is how many rows were written.
func (s *Store) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Live is the number of rows of processes.
func (s *Store) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// WriteStats implements history.Store.
func (s *Store) WriteStats(_ context.Context, rows []history.LiveRow) (leftOut int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	hour := s.now().Unix() / 3600
	for _, r := range rows {
		if r.Hour < hour-1 || r.Hour > hour+1 {
			leftOut++
			continue
		}
		s.put(r)
		s.written++
	}
	return leftOut, nil
}

func (s *Store) put(r history.LiveRow) {
	key := liveKey{r.Rule, r.Hour, r.Writer}
	if r.Tops == nil {
		r.Tops = s.live[key].Tops
	}
	s.live[key] = history.StoredRow{Kind: history.KindLive, Writer: r.Writer, Rule: r.Rule, Period: r.Hour, Data: r.Data,
		Tops: r.Tops}
}

// Put stores rows of any hour.
func (s *Store) Put(rows []history.LiveRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		s.put(r)
	}
}

// ReadStats implements history.Store.
func (s *Store) ReadStats(_ context.Context, names []string, parts []history.Part, columns history.Columns,
	see func(*history.StoredRow)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.err != nil {
		return s.err
	}
	for _, p := range parts {
		visit := func(r history.StoredRow) {
			if r.Kind != p.Kind || r.Period < p.First || r.Period > p.Last || names != nil && !slices.Contains(names, r.Rule) {
				return
			}
			switch columns {
			case history.OnlyData:
				r.Tops = nil
			case history.OnlyTops:
				r.Data = nil
			default:
			}
			see(&r)
		}
		for _, r := range s.live {
			visit(r)
		}
		for _, r := range s.rows {
			visit(r)
		}
	}
	return nil
}

// FoldStats implements history.Store.
func (s *Store) FoldStats(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	var old []history.LiveRow
	for key, r := range s.live {
		if key.hour < s.now().Unix()/3600-history.FoldAfter && len(old) < limit {
			old = append(old, history.LiveRow{Writer: r.Writer, Rule: r.Rule, Hour: r.Period, Data: r.Data, Tops: r.Tops})
			delete(s.live, key)
		}
	}
	sums, err := history.Fold(old, func(kind history.Kind, names []string, first, last int64) ([]history.StoredRow,
		error) {
		var out []history.StoredRow
		for key, r := range s.rows {
			if key.kind == kind && slices.Contains(names, key.rule) && key.period >= first && key.period <= last {
				out = append(out, r)
			}
		}
		return out, nil
	})
	for _, r := range sums {
		s.rows[rowKey{r.Kind, r.Rule, r.Period}] = r
	}
	return len(old), err
}

// CleanStats implements history.Store.
func (s *Store) CleanStats(_ context.Context, kind history.Kind, before int64, limit int) (n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.rows {
		if key.kind == kind && key.period < before && n < int64(limit) {
			delete(s.rows, key)
			n++
		}
	}
	return n, s.err
}

// keys is the number of keys, routes and tenants of a rule in an hour: more than a row holds.
const keys = 20

// Name is the name of a busy rule by its number, which is below 100,000.
func Name(i int) string { return fmt.Sprintf("uploads-per-team-%05d", i) }

// BusyHour are the rows of a process that decided in the first minutes of an hour by n rules, named as Name says. Every
// rule has decisions in every minute, and many active keys, routes and tenants, so that every row is as full as it can
// be. The figures of a minute are always the same.
func BusyHour(writer, hour int64, minutes, n int) []history.LiveRow {
	var out []history.LiveRow
	tops := busyTops(hour)
	row := func(name string, rule int) {
		points := make([]history.Point, minutes)
		for m := range points {
			minute := hour*60 + int64(m)
			f := busy(rule, minute)
			points[m] = history.Point{At: time.Unix(minute*60, 0), Known: true, Figures: f, Peak: f.Total()/20 + minute%7}
		}
		out = append(out, history.PackHour(writer, name, hour, points, tops))
	}
	for i := range n {
		row(Name(i), i)
	}
	row("", 0)
	row(history.NodePrefix+fmt.Sprintf("10.0.0.%d:8080", writer), 0)
	return out
}

// busy returns the figures of a rule in a minute. One rule in ten decides 100,000 requests per minute, the others a
// thousand; one in ten has a candidate, and one in ten has soft and elastic limits and a pool.
func busy(rule int, minute int64) history.Figures {
	rng := rand.New(rand.NewPCG(uint64(rule), uint64(minute))) //nolint:gosec // not a secret
	n := int64(1000)
	if rule%10 == 0 {
		n = 100_000
	}
	counts := [history.NumFigures]int64{n/2 + rng.Int64N(n), rng.Int64N(n / 10)}
	switch rule % 10 {
	case 1:
		counts[6], counts[7] = rng.Int64N(n/20), rng.Int64N(n/50)
	case 2:
		counts[2], counts[3], counts[4] = rng.Int64N(n/20), rng.Int64N(n/20), rng.Int64N(n/50)
	}
	return history.FiguresOf(counts)
}

func busyTops(hour int64) history.Tops {
	rng := rand.New(rand.NewPCG(1, uint64(hour))) //nolint:gosec // not a secret
	tops := history.Tops{}
	for by, key := range map[string]string{history.ByKey: "user:%016x", history.ByRoute: "POST /v1/accounts/:id/%04x",
		history.ByTenant: "tenant-%06x"} {
		top := history.Top{Rest: rng.Int64N(1000)}
		for range keys {
			top.Entries = append(top.Entries, history.TopEntry{Key: fmt.Sprintf(key, rng.Uint64N(1<<16)),
				Allowed: rng.Int64N(50_000), Denied: rng.Int64N(5000), Over: rng.Int64N(1000), Variance: rng.Int64N(100_000)})
		}
		tops[by] = top
	}
	return tops
}
