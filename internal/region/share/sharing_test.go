package share

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// book is a region's Redis.
type book struct {
	Kept
	first  bool // another node comes first
	others bool // it is the turn of other nodes
	broken error
	turns  map[string]time.Duration
}

func (b *book) Read(context.Context) (*Kept, error) {
	k := b.Kept
	return &k, nil
}

func (b *book) Write(_ context.Context, read *Kept, version int64, state []byte) (bool, error) {
	if b.first || read.Version != b.Version {
		return false, nil
	}
	b.Version, b.State, b.Kept.Kept = version, state, b.Server
	return true, nil
}

func (b *book) Turn(_ context.Context, what string, ttl time.Duration) (bool, error) {
	b.turns[what] = ttl
	return !b.others, b.broken
}
func (b *book) Ask(context.Context, map[int64]int64) error     { return nil }
func (b *book) Asked(context.Context) (map[int64]int64, error) { return map[int64]int64{}, nil }

// fixture is a node of eu, with a clock of its own.
type fixture struct {
	*Shares
	book  book
	now   time.Time
	marks marks
}

// marks are the high-water marks of the region.
type marks map[string]int64

func (m marks) HighWater(context.Context) (map[string]int64, error) { return m, nil }

var whole = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 90, Window: 1000}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{now: time.UnixMilli(1_795_000_000_000), marks: marks{}}
	f.book.At, f.book.Server, f.book.turns = 1000, "a", map[string]time.Duration{}
	sets := &match.Current{}
	sets.Store(setOf(t, nil, 7))
	var err error
	f.Shares, err = New(Options{
		Self: "eu", Peers: []region.Peer{{Name: "asia", Addresses: []string{"http://asia"}}, {Name: "us",
			Addresses: []string{"http://us"}}}, Prefix: "sl:", Interval: 10 * time.Second, Skew: 10 * time.Second,
		Book: &f.book, Marks: f.marks, Sets: sets, Token: func() string { return "secret" }, Client: &http.Client{},
		Now: func() time.Time { return f.now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// setOf is a set of rules with these ids, after a change if it is not nil.
func setOf(t *testing.T, change func(r *rules.Rule), ids ...int64) *match.Set {
	t.Helper()
	var all []rules.Rule
	for _, id := range ids {
		r := rules.Rule{ID: id, Name: "r" + strconv.FormatInt(id, 10), Scope: "user", Limit: 90, WindowMS: 1000,
			Algorithm: "fixed_window", Span: rules.SpanShares, IsActive: true, Version: 1}
		if change != nil {
			change(&r)
		}
		all = append(all, r)
	}
	set, err := match.Compile(all, 1, match.Options{Regions: 3})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// pass lets time pass, and the node read once.
func (f *fixture) pass(t *testing.T, d time.Duration) {
	t.Helper()
	f.now, f.book.At = f.now.Add(d), f.book.At+d.Milliseconds()
	if err := f.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// share is what a check may spend.
func (f *fixture) share() int64 {
	l, _ := f.Share(7, "{user:ada}|7|fw", whole, 1)
	return l.Count
}

// told says that the others hold nothing of this region.
func (f *fixture) told(t *testing.T) {
	t.Helper()
	for _, from := range []string{"asia", "us"} {
		specs := specsOf(f.opt.Sets.Load())
		if err := f.step(t.Context(), specs, func(s *State, now int64) {
			s.Accept(&f.cfg, &Answer{From: from, Epoch: 1, For: s.Epoch, HasHeld: true}, specs, now, now)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.share(); got != 30 {
		t.Fatalf("with nothing lent it spends %d, want 30", got)
	}
}

// sendAt sends to a peer at an address.
func (f *fixture) sendAt(t *testing.T, peer int, address string) (kept bool, err error) {
	t.Helper()
	f.peers[peer].Addresses = []string{address}
	return f.send(t.Context(), f.peers[peer])
}

// Without a rule whose limit is divided nothing can have been lost.
func TestShares_ANewStateIsAWarningOnlyIfALimitIsDivided(t *testing.T) {
	undivided := setOf(t, func(r *rules.Rule) { r.Span = rules.SpanRegion }, 7)
	for want, set := range map[string]*match.Set{"level=WARN": setOf(t, nil, 7), "level=INFO": undivided} {
		f, lines := newFixture(t), &strings.Builder{}
		f.opt.Log = slog.New(slog.NewTextHandler(lines, nil))
		f.opt.Sets.Store(set)
		f.pass(t, time.Second)
		if got := lines.String(); strings.Count(got, "because=\"there is no state\"") != 1 || !strings.Contains(got, want) {
			t.Errorf("the log is %q, want %s", got, want)
		}
	}
}

// A region that may have lost what it has lent spends the least part until the others have said it.
func TestShares_AStateThatMayBeAnOldOneIsNotBelieved(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){
		"an empty Redis":   func(f *fixture) { f.book.Version, f.book.State = 0, nil },
		"another server":   func(f *fixture) { f.book.Server = "b" },
		"an older version": func(f *fixture) { f.book.Version-- },
		"a clock ahead":    func(f *fixture) { f.book.At += 6000 },
		"a clock behind":   func(f *fixture) { f.book.At -= 6000 },
		"other regions":    func(f *fixture) { f.first, f.cfg.Regions = true, []string{"asia", "eu", "us", "west"} },
	} {
		f := newFixture(t)
		if got := f.share(); got != 1 {
			t.Errorf("%s: before anything was read %d are spent, want 1", name, got)
		}
		f.pass(t, time.Second)
		f.told(t)
		f.pass(t, time.Second)
		if got := f.share(); got != 30 {
			t.Fatalf("%s: %d are spent, want 30", name, got)
		}
		lose(f)
		f.pass(t, time.Second)
		if got := f.share(); got > 1 || !f.Overview().Lost {
			t.Errorf("%s: after the loss %d are spent, want 1 at most", name, got)
		}
	}
}

// What this region had borrowed is known to its nodes, so that a lender that loses its state in the same moment does
// not spend it too.
func TestShares_NodesRememberWhatTheirRegionHasBorrowed(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){
		"an empty Redis": func(f *fixture) { f.book.Version, f.book.State = 0, nil },
		"a Redis that was restarted with its nodes": func(f *fixture) {
			f.book.Server = "b"
			f.seen, f.first, f.last, f.epoch = 0, true, nil, 0
		},
		"a new state of a node that has just started": func(f *fixture) {
			b, err := json.Marshal(NewState(&f.cfg, nil, f.book.At+2000))
			if err != nil {
				t.Fatal(err)
			}
			f.book.Version, f.book.State = f.book.Version+1, b
		},
	} {
		f := newFixture(t)
		f.pass(t, time.Second)
		f.told(t)
		specs, lent := specsOf(f.opt.Sets.Load()), Spans{Segment(2, 3)}
		step := func(do func(s *State, now int64)) {
			t.Helper()
			if err := f.step(t.Context(), specs, do); err != nil {
				t.Fatal(err)
			}
		}
		step(func(s *State, now int64) {
			s.Accept(&f.cfg, &Answer{From: "us", Epoch: 1, For: s.Epoch, Term: 30_000,
				Grants: []Grant{{Rule: 7, Number: 1, Spans: lent}}}, specs, now, now)
		})
		lose(f)
		// A state that is lost is for the node whose turn it is.
		for _, acts := range []bool{name != "a new state of a node that has just started", true} {
			f.book.others = !acts
			f.pass(t, time.Second)
			if kept := Parse(f.book.State); len(kept.Rules) != 1 {
				t.Errorf("%s: the state that is kept lacks it: %s", name, f.book.State)
			}
			step(func(s *State, now int64) {
				a := s.Answer(&f.cfg, &Message{From: "us", To: "eu", Epoch: 2, Lost: true}, specs, now)
				if len(a.Held) != 1 || !slices.Equal(a.Held[0].Held, lent) {
					t.Errorf("%s: told that it holds %+v, want %v", name, a.Held, lent)
				}
			})
		}
	}
}

// A node that cannot read uses the least part, and a check carries until when its limit holds.
func TestShares_CountForATime(t *testing.T) {
	f := newFixture(t)
	f.pass(t, time.Second)
	f.told(t)
	if _, until := f.Share(7, "k", whole, 1); until != f.book.At+f.cfg.Valid {
		t.Errorf("it holds until %d, read at %d", until, f.book.At)
	}
	f.now = f.now.Add(4 * time.Second)
	if l, until := f.Share(7, "k", whole, 1); l.Count != 1 || until != 0 {
		t.Errorf("after its time: %d until %d", l.Count, until)
	}
	slow := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1, Burst: 90, Window: 1000}
	f.pass(t, time.Second)
	if l, _ := f.Share(7, "k", slow, 1); l.Count != 0 {
		t.Errorf("a limit that counts for longer than the rule's has %d", l.Count)
	}
}

// What a node spends that knows of no share is not lent, of any limit of the rule: of small rules all is lent.
func TestShares_TheLeastPartIsTheSameOfEachLimitOfARule(t *testing.T) {
	for _, c := range []struct{ rule, limit int64 }{{5, 1000}, {11, 90}, {10_000, 20}, {1000, 90}, {90, 1000}} {
		for _, self := range []string{"asia", "eu", "us"} {
			f := newFixture(t)
			f.cfg.Self = self
			f.opt.Sets.Store(setOf(t, func(r *rules.Rule) { r.Limit = c.rule }, 7))
			l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: c.limit, Window: 1000}
			got, until := f.Share(7, "k", l, 1)
			others := Limit(l, Spans{{From: 0, To: Whole}}.Minus(f.cfg.Least(c.rule)))
			if got.Count+others.Count > l.Count || until != 0 {
				t.Errorf("a rule with %d units: of a limit of %d, %s spends %d while the others may have %d", c.rule, c.limit,
					self, got.Count, others.Count)
			}
		}
	}
}

func TestShares_RefuseWhatIsNotForThem(t *testing.T) {
	f := newFixture(t)
	good := Message{Version: 1, From: "us", To: "eu", Prefix: "sl:", Regions: []string{"asia", "eu", "us"}, Epoch: 1}
	send := func(change func(m *Message)) (*Answer, error) {
		m := good
		change(&m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return f.Receive(t.Context(), b)
	}
	if a, err := send(func(*Message) {}); err != nil || a.From != "eu" || a.For != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	for field, change := range map[string]func(m *Message){
		"from": func(m *Message) { m.From = "mars" }, "to": func(m *Message) { m.To = "asia" },
		"prefix":  func(m *Message) { m.Prefix = "other:" },
		"regions": func(m *Message) { m.Regions = m.Regions[:2] },
	} {
		var refused *region.RefusedError
		if _, err := send(change); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, change := range map[string]func(m *Message){
		"another version": func(m *Message) { m.Version = 2 },
		"spans too long": func(m *Message) {
			m.Asks = []Ask{{Rule: 7, Held: Spans{{From: 0, To: Whole + 1}}}}
		},
		"a negative demand": func(m *Message) { m.Demand = map[int64]int64{7: -1} },
	} {
		if _, err := send(change); !errors.Is(err, region.ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Receive(t.Context(), []byte(`{"version":1,"more":1}`)); !errors.Is(err, region.ErrMessage) {
		t.Errorf("an unknown member: %v", err)
	}
	f.book.first = true
	if _, err := send(func(*Message) {}); !errors.Is(err, region.ErrBusy) {
		t.Errorf("other nodes come first: %v", err)
	}
}

// A region that spends the least part asks the others again at every reading, whether or not they could be asked
// before, and not four times an interval: while the list of regions changes, others refuse its first messages.
func TestShares_ARegionThatHasLostItsStateAsksAtEveryReading(t *testing.T) {
	f := newFixture(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}))
	t.Cleanup(server.Close)
	f.pass(t, time.Second)
	_, err := f.sendAt(t, 1, server.URL)
	if pause := f.book.turns["ask:us"]; err == nil || pause == 0 || pause > f.every {
		t.Errorf("%v, the next message may be sent after %s, want %s at most", err, pause, f.every)
	}
	if f.book.turns["to:us"] != 0 {
		t.Error("it waits for the end of a turn that may have been taken before the loss")
	}
	f.told(t)
	f.pass(t, time.Second)
	if _, err := f.sendAt(t, 0, server.URL); err == nil || f.book.turns["to:asia"] < f.opt.Interval/2 {
		t.Errorf("%v, with nothing lost the next message may be sent after %s", err, f.book.turns["to:asia"])
	}
}

// network is what a node's messages go through.
type network func(r *http.Request) *http.Response

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r), nil }

// A node that does not reach a region leaves the turns to nodes that may, and learns by itself when it reaches it
// again. What it shows of that region is neither older than that, nor a fault of its own Redis.
func TestShares_ANodeThatDoesNotReachARegionTriesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var messages int
		status := http.StatusOK
		*f.opt.Client = http.Client{Transport: network(func(*http.Request) *http.Response {
			messages++
			body := `{"from":"us","epoch":1,"for":1,"known":1,"term":30000}`
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
		})}
		f.pass(t, time.Second)
		f.told(t)
		<-f.peers[1].Awake() // of the reading
		go f.sendTo(t.Context(), f.peers[1])
		wakes := func(what string, want int, failing bool) {
			t.Helper()
			messages = 0
			f.peers[1].Wake()
			synctest.Wait()
			if why, since := f.Failure("us"); messages != want || (why != "") != failing || since.IsZero() == failing {
				t.Fatalf("%s: it sent %d messages, want %d, and shows %q since %v", what, messages, want, why, since)
			}
		}
		wakes("a message that is taken", 1, false)
		f.book.broken = errors.New("no answer")
		wakes("Redis does not answer", 0, false)
		f.book.broken, status = nil, http.StatusUnauthorized
		wakes("a message that is refused", 1, true)
		status, f.book.turns = http.StatusOK, map[string]time.Duration{}
		wakes("at once", 0, true)
		f.book.others = true
		f.now = f.now.Add(f.opt.Interval / 2)
		wakes("half an interval later", 1, false)
		if len(f.book.turns) > 0 {
			t.Errorf("it took the turns %v", f.book.turns)
		}
		wakes("in a turn of others", 0, false)
	})
}

// Nobody is told of a state that was not kept, and answers of strangers are not taken.
func TestShares_ASendersAnswerIsChecked(t *testing.T) {
	f := newFixture(t)
	f.pass(t, time.Second)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Content-Type") != MediaType {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"from":"asia","epoch":1,"for":1,"known":1,"term":30000}`))
	}))
	t.Cleanup(server.Close)
	if _, err := f.sendAt(t, 1, server.URL); !errors.Is(err, region.ErrMessage) {
		t.Errorf("asia answers for us: %v", err)
	}
	if told, err := f.sendAt(t, 0, server.URL); err != nil || !told {
		t.Errorf("asia answers: %v", err)
	}
}

// Of more rules than an overview has, it always has the same ones: series of metrics neither come nor go.
func TestOverview_HasTheSameRulesEachTime(t *testing.T) {
	f := newFixture(t)
	var ids, want []int64
	for id := range int64(2 * mostShown) {
		ids = append(ids, id+1)
	}
	want = ids[:mostShown]
	f.opt.Sets.Store(setOf(t, nil, ids...))
	f.pass(t, time.Second)
	for range 5 {
		var got []int64
		for _, r := range f.Overview().Rules {
			id, err := strconv.ParseInt(r.Rule[1:], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("the overview has the rules %v, want %v", got, want)
		}
	}
}

// What no bucket has used is lent as soon as all nodes know of it.
func TestShares_WhatNoBucketHasUsedIsLentAtOnce(t *testing.T) {
	hour := whole
	hour.Window = time.Hour.Milliseconds()
	for name, c := range map[string]struct {
		used   int64
		change func(r *rules.Rule)
		before bool  // a node of a version without marks has written the state
		want   int64 // units lent
	}{
		"nothing was used":    {used: 0, want: 29},
		"some was used":       {used: 10, want: 20},
		"all was used":        {used: 30, want: 0},
		"it is not known":     {used: limiter.MaxExact, want: 0},
		"there were none yet": {before: true, want: 0},
		"the rule was edited": {change: func(r *rules.Rule) { r.Version = 2 }, want: 0},
		"with GCRA":           {change: func(r *rules.Rule) { r.Algorithm = "gcra" }, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.pass(t, time.Second)
			f.told(t)
			made := f.book.At + 60_000
			if c.before {
				s := Parse(f.book.State)
				s.Began, made = 0, f.cfg.Skew
				f.book.State, _ = json.Marshal(s)
			}
			f.opt.Sets.Store(setOf(t, func(r *rules.Rule) {
				r.WindowMS, r.UpdatedAt = hour.Window, time.UnixMilli(made)
				if c.change != nil {
					c.change(r)
				}
			}, 7))
			if f.marks[f.Shares.HighWater(7, hour).Name] = c.used; c.used == 0 {
				clear(f.marks)
			}
			m := Message{Version: 1, From: "us", To: "eu", Prefix: "sl:", Regions: f.cfg.Regions, Epoch: 1,
				Yours: f.inForce.Load().state.Epoch, Demand: map[int64]int64{7: 1000},
				Asks: []Ask{{Rule: 7, Want: Whole / 3}}}
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var a *Answer
			for range 16 { // three seconds until nodes know, and ten for clocks
				if a, err = f.Receive(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				f.pass(t, time.Second)
			}
			got := int64(0)
			for _, g := range a.Grants {
				got += g.Spans.Units(90)
			}
			if got != c.want {
				t.Errorf("%d units lent, want %d", got, c.want)
			}
		})
	}
}
