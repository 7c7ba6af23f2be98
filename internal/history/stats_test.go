package history_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
	"sluice/internal/testenv"
	"sluice/rules"
)

// world are nodes that share a board and a store.
type world struct {
	t *testing.T
	*clock
	board  *flaky
	store  *historytest.Store
	reader *history.Reader
	nodes  []*node
	made   int
}

// node is a node that writes and reads.
type node struct {
	poster
	own    *history.Own
	writer *history.Writer
	reader *history.Reader
	live   *history.LiveReader
}

// newWorld is a world with a reader on a node that decides nothing.
func newWorld(t *testing.T, at time.Time) *world {
	w := &world{t: t, clock: &clock{t: at}}
	w.board, w.store = &flaky{Board: history.NewMemory(w.now)}, historytest.NewStore(w.now)
	w.reader = w.readerOf(history.NewOwn(1000, history.NewRecorder()))
	return w
}

func (w *world) readerOf(own *history.Own) *history.Reader {
	return history.NewReader(history.ReaderOptions{Live: history.NewLiveReader(w.board, w.now), Store: w.store, Own: own,
		Now: w.now, Exists: func(rule string) bool { return rule == "quiet" }})
}

func (w *world) start() *node {
	w.made++
	n := w.startAs(int64(w.made), "")
	w.nodes = append(w.nodes, n)
	return n
}

// startAs starts a node with a number, which keeps what it cannot write at a stop in a file.
func (w *world) startAs(number int64, unsent string) *node { return w.startOn(w.store, number, unsent) }

func (w *world) startOn(store history.Store, number int64, unsent string) *node {
	id, r := history.NodeID(number), history.NewRecorder()
	own, live, started := history.NewOwn(number, r), history.NewLiveReader(w.board, w.now), w.now().UnixMilli()
	return &node{poster: poster{r, history.NewPublisher(history.PublisherOptions{Recorder: r, Own: own, Board: w.board,
		Now: w.now, Status: func() history.Status {
			return history.Status{ID: id, Address: fmt.Sprintf("node-%d:80", number), Started: started}
		}})}, own: own, live: live,
		writer: history.NewWriter(history.WriterOptions{Own: own, Store: store, Keep: 90 * history.Day, Now: w.now,
			Unsent: unsent, Peaks: func(ctx context.Context, minute int64) map[string]int64 {
				return live.Peaks(ctx, id, minute)
			}}),
		reader: w.readerOf(own)}
}

// tick lets nodes post and write.
func (w *world) tick(nodes ...*node) {
	for _, n := range nodes {
		n.Post(w.t.Context())
		n.writer.Step(w.t.Context())
	}
}

// run lets all nodes post and write for so long, every five seconds.
func (w *world) run(d time.Duration) {
	for range d / (5 * time.Second) {
		w.add(5 * time.Second)
		w.tick(w.nodes...)
	}
}

// stop stops a node in good order.
func (n *node) stop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.Run(ctx)
	n.writer.Run(ctx)
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

// TestStats_AddUpWhateverHappens: nodes come, go and die, and the rule database is away for most of an hour: every step
// adds up to what was decided, but for what a node had not written when it died.
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
		for i, n := range w.nodes {
			name, allowed, denied := names[random.IntN(3)], random.IntN(4), random.IntN(2)
			if i == 0 && step%500 > 70 && step%500 < 78 { // it will die, and has nothing to lose by then
				allowed, denied = 0, 0
			}
			n.decide(name, allowed, denied)
			w.tick(n)
			at := w.now().Unix() / 60
			truth[name][at] += int64(allowed + denied)
			truth[""][at] += int64(allowed + denied)
		}
		w.store.Fail(nil)
		if step/110 == 11 { // 55 minutes
			w.store.Fail(rules.ErrUnavailable)
		}
		if step%500 == 77 { // one dies without a word, another comes
			w.nodes = w.nodes[1:]
			w.start()
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
	w.tick(n)
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
	n := w.startAs(7, "")
	n.decide("charges", 3, 1)
	n.stop(t)
	w.add(5 * time.Minute) // nobody runs
	n = w.startAs(8, "")
	n.decide("charges", 2, 0)
	w.tick(n)
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
		if !written {
			n.stop(t)
		}
		w.add(time.Minute)
	}
	seconds := w.ask(history.Query{From: w.now().Add(-20 * time.Minute), To: w.now().Add(time.Minute), Step: time.Second})
	var known int
	for _, p := range seconds.Series[0].Points {
		if p.Known {
			known++
		}
	}
	if known != 3 {
		t.Errorf("%d seconds are known, want the three with a post", known)
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
		{history.ByRoute, 9 * history.Day, at.Truncate(history.Day).Add(-9 * history.Day),
			at.Truncate(history.Day).Add(history.Day)},
		{"", time.Hour, time.Time{}, time.Time{}},
	} {
		got := w.ask(history.Query{By: tt.by, From: at.Add(-tt.back), To: at, Step: time.Hour})
		if !got.TopFrom.Equal(tt.from) || !got.TopTo.Equal(tt.to) {
			t.Errorf("by %q of the last %v: %v to %v, want %v to %v", tt.by, tt.back, got.TopFrom, got.TopTo, tt.from, tt.to)
		}
	}
}

// TestStats_ADeadNodeLosesAtMostTwoMinutes: the one that runs, and the one before until it is written.
func TestStats_ADeadNodeLosesAtMostTwoMinutes(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 30, 0, time.UTC)
	w := newWorld(t, begin)
	dies := w.startAs(50, "")
	w.start()
	w.start()
	for range 90 {
		w.add(time.Second)
		dies.decide("charges", 2, 1)
		w.tick(append(w.nodes, dies)...)
	}
	w.add(time.Second)
	ask := func() map[string]int64 {
		t.Helper()
		out := map[string]int64{}
		for _, step := range []time.Duration{time.Minute, history.Day} {
			f := sumOf(w.ask(history.Query{Rule: "charges", From: begin, To: w.now(), Step: step}))
			out[history.StepName(step)] = f.Total()
		}
		return out
	}
	if got := ask(); got["minute"] != 270 || got["day"] != 270 {
		t.Errorf("while the board has it: %v, want 270", got)
	}
	w.run(10 * time.Minute) // it is dead
	if got := ask(); got["minute"] != 87 || got["day"] != 87 {
		t.Errorf("afterwards: %v, want the 87 of its first minute", got)
	}
	got := w.ask(history.Query{Rule: "charges", From: begin, To: w.now(), Step: time.Minute})
	if _, peak := got.Series[0].Sum(); peak != 3 {
		t.Errorf("peak %d a second, want 3", peak)
	}
	if lag := w.now().Sub(got.CompleteUntil); lag > 4*time.Minute {
		t.Errorf("a node that is gone holds up what is complete by %v", lag)
	}
}

// TestStats_ThePeakIsThatOfAllNodes: of a second over all nodes, although each writes its own minutes.
func TestStats_ThePeakIsThatOfAllNodes(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 30, 0, time.UTC))
	a, b := w.start(), w.start()
	for second := range 60 {
		w.add(time.Second)
		a.decide("charges", 1+second%3, 0)
		b.decide("charges", 5, 0)
		w.tick(a, b)
	}
	w.add(2 * time.Second) // no minute has been written yet
	got := w.ask(history.Query{From: w.now().Add(-10 * time.Minute), To: w.now(), Step: time.Minute})
	if _, peak := got.Series[0].Sum(); peak != 8 {
		t.Errorf("peak %d of all requests on the board, want 8", peak)
	}
	w.run(5 * time.Minute)
	for _, step := range []time.Duration{time.Minute, time.Hour} {
		for _, rule := range []string{"", "charges"} {
			got := w.ask(history.Query{Rule: rule, From: w.now().Add(-10 * time.Minute), To: w.now(), Step: step})
			if _, peak := got.Series[0].Sum(); peak != 8 {
				t.Errorf("%q by %s: peak %d, want 8", rule, history.StepName(step), peak)
			}
		}
	}
}

// TestStats_AStoppedNodeIsFinishedByTheNextOne: what it could not write is in a file, is written under its own number,
// and is never counted twice, however often the file is found.
func TestStats_AStoppedNodeIsFinishedByTheNextOne(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 20, 30, 0, time.UTC)
	w := newWorld(t, begin)
	file := filepath.Join(t.TempDir(), "figures.unsent")
	n := w.startAs(1, file)
	want := int64(0)
	run := func(d time.Duration) {
		for range d / (5 * time.Second) {
			w.add(5 * time.Second)
			n.decide("charges", 3, 1)
			n.Top("charges", history.ByKey, "user:1", true, 3)
			want += 4
			w.tick(n)
		}
	}
	sum := func() (out []int64) {
		t.Helper()
		for _, step := range []time.Duration{time.Minute, time.Hour, history.Day} {
			f := sumOf(w.ask(history.Query{Rule: "charges", From: begin.Truncate(step), To: w.now(), Step: step}))
			out = append(out, f.Total())
		}
		return out
	}
	run(3 * time.Minute)
	w.store.Fail(rules.ErrUnavailable)
	run(15 * time.Minute)
	n.stop(t)
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n = w.startAs(2, file)
	run(15 * time.Minute)
	n.stop(t) // the database is still away
	n = w.startAs(3, file)
	run(time.Minute)
	w.store.Fail(nil)
	run(5 * time.Minute)
	w.nodes = append(w.nodes, n)
	w.run(3 * time.Minute)
	w.nodes = nil
	if got := sum(); !slices.Equal(got, []int64{want, want, want}) {
		t.Errorf("%v, want %d by every step", got, want)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	n.stop(t)
	for _, later := range []time.Duration{0, 6 * time.Hour} { // then the hour was added up
		w.add(later)
		w.run(0)
		for n := 1; n > 0; {
			n, _ = w.store.FoldStats(t.Context(), 100)
		}
		if err := os.WriteFile(file, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		again := w.startAs(4, file)
		for range 20 {
			w.add(time.Second)
			w.tick(again)
		}
		if got := sum(); !slices.Equal(got, []int64{want, want, want}) {
			t.Errorf("%v later, the file came again: %v, want %d by every step", later, got, want)
		}
	}
	if w.store.Live() > 4 {
		t.Errorf("%d rows of processes are left", w.store.Live())
	}
}

// TestWriter_KeepsAFileThatItCannotRead under another name, also if this process stops without the database.
func TestWriter_KeepsAFileThatItCannotRead(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 20, 30, 0, time.UTC))
	file := filepath.Join(t.TempDir(), "figures.unsent")
	for _, text := range []string{"", "sluice figures 2\nabcdefgh", "sluice figures 1\nabcdefgh"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n := w.startAs(1, file)
		w.store.Fail(rules.ErrUnavailable)
		n.decide("charges", 1, 0)
		w.tick(n)
		n.stop(t)
		w.store.Fail(nil)
		if got, err := os.ReadFile(file + ".damaged"); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}

// TestWriter_SpreadsManyRowsOverTheMinute: at most MaxWritten at once, each once a minute.
func TestWriter_SpreadsManyRowsOverTheMinute(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	n := w.start()
	const many = 1000
	most, all := 0, 0
	for second := range 180 {
		w.add(time.Second)
		if second == 10 {
			for i := range many {
				n.decide(fmt.Sprintf("rule-%d", i), 1, 0)
			}
		}
		before := w.store.Written()
		w.tick(n)
		most = max(most, w.store.Written()-before)
		all = w.store.Written()
	}
	if most > history.MaxWritten {
		t.Errorf("%d rows at once", most)
	}
	if all != many+2*2 { // and the two of the node in each of two minutes
		t.Errorf("%d rows were written, want each once", all)
	}
}

// TestWriter_SaysHowOldItsNewestMinuteIs for the alert that figures are not written.
func TestWriter_SaysHowOldItsNewestMinuteIs(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	n := w.start()
	r := prometheus.NewPedanticRegistry()
	n.writer.Register(r)
	w.run(30 * time.Second)
	testenv.Served(t, r, "sluice_stats_lag_seconds 30")
	w.run(40 * time.Second)
	if lag := n.writer.Lag(); lag != 10*time.Second {
		t.Errorf("%v, want 10 s", lag)
	}
	w.store.Fail(errors.New("gone"))
	w.run(10 * time.Minute)
	testenv.Served(t, r, "sluice_stats_lag_seconds 610")
}

// TestStats_AnOutageOfTheCountersLosesNoMinute: also if they come back empty.
func TestStats_AnOutageOfTheCountersLosesNoMinute(t *testing.T) {
	begin := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC) // a day ends meanwhile
	w := newWorld(t, begin)
	w.start()
	w.start()
	want := map[int64]int64{}
	run := func(length time.Duration) {
		for range length / (5 * time.Second) {
			for i, n := range w.nodes {
				n.decide("charges", i+1, 0)
				want[w.now().Unix()/60] += int64(i + 1)
			}
			w.tick(w.nodes...)
			w.add(5 * time.Second)
		}
	}
	run(10 * time.Minute)
	w.board.away = true
	run(50 * time.Minute)
	w.board.Board, w.board.away = history.NewMemory(w.now), false
	run(10 * time.Minute)
	w.board.Board = history.NewMemory(w.now)
	run(3 * time.Minute)
	w.add(time.Second)
	for _, step := range []time.Duration{time.Minute, time.Hour, history.Day} {
		got := w.ask(history.Query{Rule: "charges", From: begin.Truncate(step), To: w.now(), Step: step})
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

// TestStats_MoreThanADayWithoutANode: the hour and the day in which the last one stopped count all the same.
func TestStats_MoreThanADayWithoutANode(t *testing.T) {
	begin := time.Date(2026, 11, 20, 18, 20, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.startAs(1, "")
	n.decide("charges", 5, 0)
	n.stop(t)
	w.add(60 * time.Hour)
	n = w.startAs(2, "")
	n.decide("charges", 1, 0)
	w.tick(n)
	w.nodes = append(w.nodes, n)
	w.run(20 * time.Minute)
	n.stop(t)
	w.nodes = nil
	w.add(20 * 24 * time.Hour)
	w.start()
	w.run(20 * time.Minute)
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
			w.tick(n)
		}
	}
	w.run(2 * time.Minute) // they are written
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
		r, s := history.NewRecorder(), history.NewSketches()
		p := history.NewPublisher(history.PublisherOptions{Recorder: r, Board: history.NewMemory(c.now), Now: c.now,
			Status: func() history.Status { return history.Status{ID: "a"} }})
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
