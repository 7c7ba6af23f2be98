package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/history"
	"sluice/rules"
)

// clock is a time that only tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// store is a history.Store in memory. Err, if not nil, is what every call fails with.
type store struct {
	err     error
	rows    map[string]history.StoredRow
	holder  string
	until   time.Time
	written time.Time
	now     func() time.Time
	// reads, if not nil, is told of every read. asked counts calls of WrittenStats.
	reads func(history.Kind)
	asked int
}

func newStore(now func() time.Time) *store {
	return &store{rows: map[string]history.StoredRow{}, now: now}
}

func (s *store) ClaimStats(_ context.Context, node string, life time.Duration) (bool, time.Time, error) {
	if s.err != nil {
		return false, time.Time{}, s.err
	}
	if s.holder != node && s.now().Before(s.until) {
		return false, s.written, nil
	}
	s.holder, s.until = node, s.now().Add(life)
	return true, s.written, nil
}

func (s *store) WriteStats(_ context.Context, node string, rows []history.StoredRow, written time.Time) (bool, error) {
	if s.err != nil || s.holder != node {
		return false, s.err
	}
	for _, r := range rows {
		s.rows[fmt.Sprint(r.Kind, r.Rule, " ", r.Period)] = r
	}
	s.written = written
	return true, nil
}

func (s *store) ReadStats(_ context.Context, kind history.Kind, names []string, first, last int64) ([]history.StoredRow,
	error) {
	if s.reads != nil {
		s.reads(kind)
	}
	var out []history.StoredRow
	for _, r := range s.rows {
		if r.Kind == kind && r.Period >= first && r.Period <= last && (names == nil || slices.Contains(names, r.Rule)) {
			out = append(out, r)
		}
	}
	return out, s.err
}

func (s *store) WrittenStats(context.Context) (time.Time, error) {
	s.asked++
	return s.written, s.err
}

func (s *store) CleanStats(_ context.Context, kind history.Kind, before int64, _ int) (int64, error) {
	var n int64
	for k, r := range s.rows {
		if r.Kind == kind && r.Period < before {
			delete(s.rows, k)
			n++
		}
	}
	return n, s.err
}

// counters is a board that can be away.
type counters struct {
	*fleet.Memory
	away bool
}

func (c *counters) Post(ctx context.Context, e []fleet.Entry) error {
	if c.away {
		return errAway
	}
	return c.Memory.Post(ctx, e)
}

func (c *counters) Read(ctx context.Context, tables []string) ([]map[string]string, error) {
	if c.away {
		return nil, errAway
	}
	return c.Memory.Read(ctx, tables)
}

var errAway = errors.New("away")

// world are nodes that share a board and a store.
type world struct {
	t *testing.T
	*clock
	board  *counters
	store  *store
	reader *history.Reader
	nodes  []*node
	made   int
}

type node struct {
	*fleet.Recorder
	*fleet.Publisher
	writer *history.Writer
}

func newWorld(t *testing.T, at time.Time) *world {
	w := &world{t: t, clock: &clock{t: at}}
	w.board, w.store = &counters{Memory: fleet.NewMemory(w.now)}, newStore(w.now)
	w.reader = history.NewReader(history.ReaderOptions{Recent: fleet.NewReader(w.board, w.now), Store: w.store, Now: w.now,
		Keep: 90 * history.Day, Exists: func(rule string) bool { return rule == "quiet" }})
	return w
}

func (w *world) start() *node {
	w.made++
	id := fmt.Sprintf("node-%d", w.made)
	r := fleet.NewRecorder()
	n := &node{Recorder: r, Publisher: fleet.NewPublisher(fleet.PublisherOptions{Recorder: r, Board: w.board, Now: w.now,
		Status: func() fleet.Status { return fleet.Status{ID: id, Address: id + ":80"} }}),
		writer: history.NewWriter(history.WriterOptions{Recent: fleet.NewReader(w.board, w.now), Store: w.store, Node: id,
			Keep: 90 * history.Day, Now: w.now})}
	w.nodes = append(w.nodes, n)
	return n
}

func (n *node) decide(rule string, allowed, denied int) {
	for i := range allowed + denied {
		d := fleet.Decided{Allowed: i < allowed}
		n.Request(&d)
		n.Limit(rule, &d)
	}
}

func (w *world) ask(q history.Query) history.Result {
	w.t.Helper()
	got, err := w.reader.Stats(w.t.Context(), q)
	if err != nil {
		w.t.Fatalf("%+v: %v", q, err)
	}
	return got
}

func sumOf(r history.Result) history.Figures {
	sum, _ := r.Series[0].Sum()
	return sum
}

// TestStats_AddUpWhateverHappens: nodes come, go and die, the rule database is away for hours, and the writer changes:
// every step adds up to what was decided and posted.
func TestStats_AddUpWhateverHappens(t *testing.T) {
	begin := time.Date(2026, 11, 20, 21, 58, 7, 0, time.UTC)
	w := newWorld(t, begin)
	random := rand.New(rand.NewPCG(1, 2))
	w.start()
	w.start()
	names := []string{"charges", "search", "login"}
	truth := map[string]map[int64]int64{"": {}}
	for _, name := range names {
		truth[name] = map[int64]int64{}
	}
	const every = time.Minute / 2
	for step := range 30 * 3600 / 30 {
		w.add(every)
		for _, n := range w.nodes {
			name, allowed, denied := names[random.IntN(3)], random.IntN(4), random.IntN(2)
			n.decide(name, allowed, denied)
			n.Post(t.Context())
			at := w.now().Unix() / 60
			truth[name][at] += int64(allowed + denied)
			truth[""][at] += int64(allowed + denied)
		}
		switch h := step / 120; { // hours
		case h >= 9 && h < 14:
			w.store.err = rules.ErrUnavailable
		default:
			w.store.err = nil
		}
		if step%500 == 77 { // one dies without a word, another comes
			w.nodes = w.nodes[1:]
			w.start()
		}
		if step%3 == 0 {
			for _, n := range w.nodes {
				n.writer.Round(t.Context())
			}
		}
	}
	w.add(3 * time.Second)
	for rule, minutes := range truth {
		for _, step := range []time.Duration{time.Minute, time.Hour, history.Day} {
			from, to := begin.Truncate(step), w.now()
			got := w.ask(history.Query{Rule: rule, From: from, To: to, Step: step})
			want := map[int64]int64{}
			for m, n := range minutes {
				want[m*60/int64(step/time.Second)] += n
			}
			for _, p := range got.Series[0].Points {
				if n := want[p.At.Unix()/int64(step/time.Second)]; p.Total() != n || !p.Known {
					t.Fatalf("%q at %s by %s: %d (known %v), want %d", rule, p.At, history.StepName(step), p.Total(), p.Known, n)
				}
			}
		}
	}
	rows := w.ask(history.Query{By: history.ByRule, From: begin, To: w.now(), Step: time.Hour, Series: true})
	var sum int64
	for i, row := range rows.Top {
		sum += row.Allowed + row.Denied
		if s, peak := rows.Series[i].Sum(); rows.Series[i].Rule != row.Key || s.Allowed != row.Allowed || peak != row.Peak {
			t.Errorf("row %+v, series %+v with peak %d", row, s, peak)
		}
	}
	var want int64
	for _, n := range truth[""] {
		want += n
	}
	if sum != want || len(rows.Top) != 3 {
		t.Errorf("rows %+v add up to %d, want %d", rows.Top, sum, want)
	}
	sum = 0
	for _, row := range w.ask(history.Query{By: history.ByNode, From: begin, To: w.now(), Step: time.Hour}).Top {
		sum += row.Allowed + row.Denied
		if !strings.HasPrefix(row.Key, "node-") {
			t.Errorf("node %q", row.Key)
		}
	}
	if sum != want {
		t.Errorf("nodes add up to %d, want %d", sum, want)
	}
}

// TestStats_SeriesAreBounded: with many rules, an answer has those with the most denied requests.
func TestStats_SeriesAreBounded(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	for i := range history.MaxSeries + 5 {
		n.decide(fmt.Sprintf("rule-%03d", i), 1, i)
	}
	n.Post(t.Context())
	w.add(time.Minute)
	for points, want := range map[int]int{60: history.MaxSeries, 1001: 99, history.MaxPoints: 20} {
		got := w.ask(history.Query{By: history.ByRule, Series: true, Step: time.Minute, To: begin.Add(time.Minute),
			From: begin.Add(time.Minute - time.Duration(points)*time.Minute)})
		if len(got.Series) != want || len(got.Top) != history.MaxRows || len(got.Series[0].Points) != points {
			t.Errorf("%d points: %d series of %d, %d rows", points, len(got.Series), len(got.Series[0].Points), len(got.Top))
		}
		if sum, _ := got.Series[0].Sum(); sum.Denied != history.MaxSeries+4 || got.Series[0].Rule != got.Top[0].Key {
			t.Errorf("the first series is of %s with %+v", got.Series[0].Rule, sum)
		}
	}
}

// TestStats_WhatIsNotKnownIsNotZero: before the first node, while none runs, and in the future.
func TestStats_WhatIsNotKnownIsNotZero(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	n.decide("charges", 3, 1)
	n.Post(t.Context())
	w.add(5 * time.Minute) // nobody runs
	n = w.start()
	n.decide("charges", 2, 0)
	n.Post(t.Context())
	w.add(4 * time.Second)
	for _, written := range []bool{false, true} {
		got := w.ask(history.Query{Rule: "charges", From: begin.Add(-2 * time.Minute), To: begin.Add(8 * time.Minute),
			Step: time.Minute})
		var known []int64
		for _, p := range got.Series[0].Points {
			if p.Known {
				known = append(known, p.At.Unix()/60-begin.Unix()/60, p.Total())
			} else if p.Figures != (history.Figures{}) || p.Peak != -1 {
				t.Errorf("unknown point %+v", p)
			}
		}
		if want := []int64{0, 4, 5, 2}; !slices.Equal(known, want) {
			t.Errorf("written %v: known %v, want %v", written, known, want)
		}
		w.add(time.Minute)
		n.writer.Round(t.Context())
	}
	seconds := w.ask(history.Query{From: w.now().Add(-20 * time.Minute), To: w.now().Add(time.Minute), Step: time.Second})
	var known int
	for _, p := range seconds.Series[0].Points {
		if p.Known {
			known++
		}
	}
	if known != 2 {
		t.Errorf("%d seconds are known, want the two with a post", known)
	}
	if got := w.ask(history.Query{Rule: "quiet", From: begin, To: w.now(), Step: time.Hour}); sumOf(got).Total() != 0 {
		t.Errorf("a rule without requests has %+v", got)
	}
	_, err := w.reader.Stats(t.Context(), history.Query{Rule: "nobody", From: begin, To: w.now(), Step: time.Hour})
	if !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("a rule that never was: %v", err)
	}
}

// TestStats_RowsSayWhichTimeTheyCover: rows are counted by longer steps than points.
func TestStats_RowsSayWhichTimeTheyCover(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 30, 30, 0, time.UTC)
	w := newWorld(t, at)
	for _, tt := range []struct {
		by       string
		back     time.Duration
		from, to time.Time
	}{
		{history.ByRule, 5 * time.Minute, at.Truncate(time.Minute).Add(-5 * time.Minute),
			at.Truncate(time.Minute).Add(time.Minute)},
		{history.ByNode, 7 * time.Hour, at.Truncate(time.Hour).Add(-7 * time.Hour), at.Truncate(time.Hour).Add(time.Hour)},
		{history.ByKey, 5 * time.Minute, at.Truncate(time.Hour), at.Truncate(time.Hour).Add(time.Hour)},
		{history.ByRoute, 9 * history.Day, at.Truncate(history.Day).Add(-9 * history.Day), at.Truncate(history.Day).Add(history.Day)},
		{"", time.Hour, time.Time{}, time.Time{}},
	} {
		got := w.ask(history.Query{By: tt.by, From: at.Add(-tt.back), To: at, Step: time.Hour})
		if !got.TopFrom.Equal(tt.from) || !got.TopTo.Equal(tt.to) {
			t.Errorf("by %q of the last %v: %v to %v, want %v to %v", tt.by, tt.back, got.TopFrom, got.TopTo, tt.from, tt.to)
		}
	}
}

// TestStats_ADeadNodeLosesAtMostItsLastSecond: what was posted by second counts, although the minute was not posted.
func TestStats_ADeadNodeLosesAtMostItsLastSecond(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 30, 0, time.UTC)
	w := newWorld(t, begin)
	n, other := w.start(), w.start()
	for range 12 {
		n.decide("charges", 2, 1)
		n.Post(t.Context())
		w.add(time.Second)
	}
	for range 90 {
		other.Post(t.Context())
		w.add(time.Second)
	}
	check := func(when string) {
		t.Helper()
		for _, step := range []time.Duration{time.Second, time.Minute} {
			got := w.ask(history.Query{Rule: "charges", From: begin, To: w.now(), Step: step})
			if s := sumOf(got); s.Allowed != 24 || s.Denied != 12 {
				t.Errorf("%s by %s: %+v, want 24 and 12", when, history.StepName(step), s)
			}
		}
	}
	check("before it is written")
	other.writer.Round(t.Context())
	check("after")
	got := w.ask(history.Query{Rule: "charges", From: begin, To: w.now(), Step: time.Minute})
	if _, peak := got.Series[0].Sum(); peak != 3 {
		t.Errorf("peak %d a second, want 3", peak)
	}
}

// TestStats_AnOutageOfTheCountersLosesNoMinute: nodes keep what they decide, and the writer waits until all posted it.
func TestStats_AnOutageOfTheCountersLosesNoMinute(t *testing.T) {
	begin := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC) // a day ends meanwhile
	w := newWorld(t, begin)
	early, late := w.start(), w.start()
	want := map[int64]int64{}
	run := func(length time.Duration, posts ...*node) {
		for range length / (5 * time.Second) {
			for i, n := range []*node{early, late} {
				n.decide("charges", i+1, 0)
				want[w.now().Unix()/60] += int64(i + 1)
				if len(posts) == 0 || slices.Contains(posts, n) {
					n.Post(t.Context())
				}
				if w.now().Unix()%60 == 30 {
					n.writer.Round(t.Context())
				}
			}
			w.add(5 * time.Second)
		}
	}
	run(10 * time.Minute)
	w.board.away = true
	run(50 * time.Minute)
	w.board.away = false
	got := w.ask(history.Query{Rule: "charges", From: begin, To: w.now(), Step: time.Minute})
	if got.CompleteUntil.After(begin.Add(10 * time.Minute)) {
		t.Errorf("complete until %s, before the nodes have posted", got.CompleteUntil)
	}
	run(15*time.Second, early) // the other one comes back later
	run(10 * time.Minute)
	for _, step := range []time.Duration{time.Minute, time.Hour, history.Day} {
		got := w.ask(history.Query{Rule: "charges", From: begin.Truncate(step), To: begin.Add(time.Hour), Step: step})
		sums := map[int64]int64{}
		for m, n := range want {
			sums[m*60/int64(step/time.Second)] += n
		}
		for _, p := range got.Series[0].Points {
			if n := sums[p.At.Unix()/int64(step/time.Second)]; p.Allowed != n {
				t.Errorf("by %s at %s: %d allowed, want %d", history.StepName(step), p.At, p.Allowed, n)
			}
		}
	}
}

// TestStats_MoreThanADayWithoutAWriter: the hour and the day in which it stopped count all the same.
func TestStats_MoreThanADayWithoutAWriter(t *testing.T) {
	begin := time.Date(2026, 11, 20, 18, 20, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	n.decide("charges", 5, 0)
	n.Post(t.Context())
	w.add(3 * time.Minute)
	n.writer.Round(t.Context())
	w.add(60 * time.Hour)
	n = w.start()
	n.decide("charges", 1, 0)
	n.Post(t.Context())
	for range 2 {
		w.add(2 * time.Minute)
		n.writer.Round(t.Context())
	}
	w.add(20 * 24 * time.Hour)
	for range 2 {
		w.add(time.Minute)
		n.writer.Round(t.Context())
	}
	for _, step := range []time.Duration{time.Hour, history.Day} {
		got := w.ask(history.Query{Rule: "charges", From: begin.Add(-time.Hour), To: w.now(), Step: step})
		if s := sumOf(got); s.Allowed != 6 {
			t.Errorf("by %s: %+v, want 6 allowed", history.StepName(step), s)
		}
		if p := got.Series[0].Points[30/int(step/time.Hour)+1]; p.Known {
			t.Errorf("by %s: %+v is known, but nobody ran", history.StepName(step), p)
		}
	}
}

// TestTop_BoundsItsErrorAndFindsTheBusiest compares sketches with exact counts, over nodes and hours.
func TestTop_BoundsItsErrorAndFindsTheBusiest(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := newWorld(t, begin)
	w.start()
	w.start()
	random := rand.New(rand.NewPCG(3, 4))
	truth := map[string]int64{}
	for range 3 * 180 {
		w.add(20 * time.Second)
		for _, n := range w.nodes {
			n.decide("charges", 1, 0)
			for range 100 {
				key := fmt.Sprintf("user:%d", int(random.ExpFloat64()*30))
				n.Top("charges", history.ByKey, key, random.IntN(3) > 0, 1)
				truth[key]++
			}
			n.Post(t.Context())
			n.writer.Round(t.Context())
		}
	}
	got := w.ask(history.Query{Rule: "charges", By: history.ByKey, From: begin, To: w.now(), Step: time.Hour})
	if len(got.Top) < 8 {
		t.Fatalf("%d keys", len(got.Top))
	}
	for _, row := range got.Top {
		n := row.Allowed + row.Denied
		if n > truth[row.Key] || n+row.Error < truth[row.Key] {
			t.Errorf("%s: %d ± %d, in truth %d", row.Key, n, row.Error, truth[row.Key])
		}
	}
	most := slices.MaxFunc(got.Top, func(a, b history.Row) int { return int(a.Allowed + a.Denied - b.Allowed - b.Denied) })
	if !slices.Contains([]string{"user:0", "user:1", "user:2"}, most.Key) {
		t.Errorf("the busiest is %+v", most)
	}
}

// TestWeight_CountsAllOfLittleAndASampleOfMuch: the estimate is within its error.
func TestWeight_CountsAllOfLittleAndASampleOfMuch(t *testing.T) {
	c := &clock{t: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	for _, perSecond := range []int64{500, 50_000} {
		r, s := fleet.NewRecorder(), history.NewSketches()
		p := fleet.NewPublisher(fleet.PublisherOptions{Recorder: r, Board: fleet.NewMemory(c.now), Now: c.now,
			Status: func() fleet.Status { return fleet.Status{ID: "a"} }})
		var drawn int64
		for range 10 {
			for range perSecond {
				if weight := r.Weight(); weight > 0 {
					drawn++
					s.Add(history.ByKey, "user:42", true, weight)
				}
			}
			p.Post(t.Context())
			c.add(time.Second)
		}
		e := s.Tops()[history.ByKey].Entries[0]
		if perSecond == 500 && (e.Allowed != 5000 || e.Error() != 0) {
			t.Errorf("%d ± %d of 5000", e.Allowed, e.Error())
		}
		if off := e.Allowed - 10*perSecond; off > 3*e.Error() || -off > 3*e.Error() {
			t.Errorf("%d ± %d of %d", e.Allowed, e.Error(), 10*perSecond)
		}
		if drawn > 40_000 {
			t.Errorf("%d were drawn of %d", drawn, 10*perSecond)
		}
	}
}
