package backtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
	"sluice/rules/rulefile"
)

// everyRule is a rules file with a rule of every algorithm and of every kind that changes a decision.
func everyRule() string {
	var b strings.Builder
	b.WriteString("pools:\n  - {name: shop, limit: 400, window_ms: 60000}\nrules:\n")
	for i, a := range limiter.Algorithms() {
		if a == limiter.Ban {
			continue
		}
		scope := []string{"user", "ip", "global", "user+ip", "apikey"}[i%5]
		fmt.Fprintf(&b, "  - {name: every-%s, scope: %s, route: /v1/%s, algorithm: %s, limit: %d, window_ms: %d}\n", a, scope,
			strings.ReplaceAll(a.String(), "_", "-"), a, 5+i, 2000*(1+i%3))
	}
	b.WriteString(`
  - {name: soft, scope: user, route: /v1/soft, limit: 4, window_ms: 3000, throttle: soft, soft_percent: 50}
  - {name: elastic, scope: user, route: /v1/soft, limit: 6, window_ms: 5000, throttle: elastic,
     elastic_percent: 100, pool: shop}
  - {name: fields, scope: user, route: /v1/soft, limit: 900, window_ms: 9000, weight_field: tokens}
  - {name: tiers, scope: user, limit: 30, window_ms: 10000, tiers: {gold: {limit: 60}}}
  - {name: conditional, scope: ip, limit: 20, window_ms: 10000, when: 'tier == "gold" || ip == "203.0.113.7"'}
  - {name: watched, scope: user, limit: 3, window_ms: 1000, mode: shadow}
  - {name: trial, scope: user, limit: 50, window_ms: 10000, candidate: {limit: 5}}
  - {name: banned, scope: ip, route: /v1/soft, limit: 8, window_ms: 4000,
     ban: {after: 5, within_ms: 20000, for_ms: 30000}}
`)
	return b.String()
}

func compiled(t testing.TB, text string) *match.Set {
	t.Helper()
	file, err := rulefile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Rules {
		file.Rules[i].ID, file.Rules[i].Version = int64(i+1), 1
	}
	set, err := match.CompileSource(rules.Source{Rules: file.Rules, Pools: file.Pools, Version: 1}, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// copier is a sink that copies what it gets.
type copier struct {
	to io.Writer
	of *records.Account
	t  *testing.T
}

func (c *copier) Write(b records.Batch) {
	for _, line := range b.Lines {
		if _, err := c.to.Write(line); err != nil {
			c.t.Error(err)
		}
	}
	c.of.Deliver(len(b.Lines))
}

func (c *copier) Close(context.Context) error { return nil }

func (c *copier) Oldest() time.Time { return time.Time{} }

// recorded is a node whose decisions are recorded.
type recorded struct {
	sets    match.Current
	store   *memstore.Store
	checker *decide.Checker
	log     *records.Log
	account records.Account
}

func newRecorded(t *testing.T, set *match.Set, into io.Writer, rate float64, address string) *recorded {
	t.Helper()
	r := &recorded{store: memstore.New(memstore.Options{})}
	r.sets.Store(set)
	var err error
	if r.log, err = records.New(records.Options{Sink: &copier{into, &r.account, t}, Account: &r.account, Rate: rate,
		Address: address,
		Secret:  func() []byte { return []byte("secret") }, Node: "n1", Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	r.checker, err = decide.NewChecker(decide.CheckerOptions{Sets: &r.sets, Store: r.store, Timeout: -1, Now: time.Now,
		Secrets: secret{}, Observe: r.log})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// close ends the log. Every event must be in it.
func (r *recorded) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.log.Close(t.Context()), r.store.Close()); err != nil {
		t.Fatal(err)
	}
	if got := r.account.Totals(); got.Delivered != got.Produced {
		t.Errorf("account %+v", got)
	}
}

// edit is a set of rules and the time at which it came into force.
type edit struct {
	at  int64
	set *match.Set
}

// play plays n operations of every kind at random, with edits in between, and returns the log and the edits.
func play(t *testing.T, n int, seed uint64) (string, []edit) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test that can be repeated
	sets := []*match.Set{compiled(t, everyRule()),
		compiled(t, strings.NewReplacer("limit: 5,", "limit: 9,", "limit: 30,", "limit: 12,").Replace(everyRule()))}
	sets = append(sets, overridden(t, sets[0]))
	var text bytes.Buffer
	r := newRecorded(t, sets[0], &text, 100, records.AddressWhole)
	edits := []edit{{0, sets[0]}}
	type open struct{ id, lease, reservation string }
	var held []open
	var last decide.Question
	var a decide.Answer
	origin := decide.Origin{Face: "http"}
	ctx := t.Context()
	algorithms := limiter.Algorithms()
	for i := range n {
		time.Sleep(time.Duration(1+rnd.IntN(120)) * time.Millisecond) //nolint:forbidigo // virtual time
		if i%(n/5+1) == n/5 {
			set := sets[rnd.IntN(len(sets))]
			edits = append(edits, edit{time.Now().UnixMilli(), set})
			r.sets.Store(set)
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		}
		q := decide.Question{Weight: int64(rnd.IntN(4)), Origin: origin, Descriptor: match.Descriptor{Method: "POST",
			Route: "/v1/" + strings.ReplaceAll(algorithms[rnd.IntN(len(algorithms))].String(), "_", "-"),
			User:  strconv.Itoa(rnd.IntN(5)), APIKey: "key-" + strconv.Itoa(rnd.IntN(3)),
			IP:   netip.AddrFrom4([4]byte{203, 0, 113, byte(5 + rnd.IntN(4))}),
			Tier: []string{"", "gold"}[rnd.IntN(2)], Fields: map[string]int64{"tokens": int64(rnd.IntN(90))}}}
		if rnd.IntN(4) == 0 {
			q.Descriptor.Route = "/v1/soft"
		}
		switch k := rnd.IntN(30); {
		case k == 0 && last.RequestID != "":
			q = last // a client tries again
		case k < 10:
			q.RequestID = "r" + strconv.Itoa(i)
			last = q
		}
		var err error
		switch k := rnd.IntN(20); {
		case k == 0:
			q.Op = limiter.OpCharge
			err = r.checker.Do(ctx, &q, &a)
		case k == 1:
			q.Op = limiter.OpRefund
			err = r.checker.Do(ctx, &q, &a)
		case k == 2:
			q.Op, q.OnlyBans = limiter.OpReset, rnd.IntN(2) == 0
			err = r.checker.Do(ctx, &q, &a)
		case k < 5:
			if err = r.checker.Reserve(ctx, &q, 60_000, &a); a.Reservation != "" {
				held = slices.DeleteFunc(held, func(h open) bool { return h.id != "" && h.id == q.RequestID }) // it was lost
				held = append(held, open{id: q.RequestID, reservation: a.Reservation})
			}
		case k < 8 && len(held) > 0:
			at := rnd.IntN(len(held))
			h := held[at]
			held = append(held[:at], held[at+1:]...)
			if h.reservation != "" {
				s := decide.Settlement{Reservation: h.reservation, Weight: int64(rnd.IntN(5)) - 1, Origin: origin,
					Fields: map[string]int64{"tokens": int64(rnd.IntN(120))}}
				err = r.checker.SettleReservation(ctx, &s, &a)
			} else {
				op := limiter.OpRelease
				if rnd.IntN(3) == 0 {
					op = limiter.OpRenew
				}
				err = r.checker.Lease(ctx, op, h.lease, origin, &a)
			}
			if err == decide.ErrReservationEnded { //nolint:errorlint // as returned
				err = nil
			}
		case k == 8:
			q.IsDirect = true
			q.Direct = decide.Direct{Key: "own-" + strconv.Itoa(rnd.IntN(3)),
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 4, Window: 2000}}
			err = r.checker.Do(ctx, &q, &a)
		default:
			if err = r.checker.Do(ctx, &q, &a); a.Lease != "" {
				held = append(held, open{id: q.RequestID, lease: a.Lease})
			}
		}
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	r.close(t)
	return text.String(), edits
}

// overridden returns a set with overrides of a user and of an address.
func overridden(t *testing.T, set *match.Set) *match.Set {
	t.Helper()
	e := override.New().Edit()
	for i, o := range []struct{ rule, key string }{{"tiers", "user:1"}, {"conditional", "ip:203.0.113.7"}} {
		c := set.Named(o.rule)
		ov := rules.Override{Key: o.key, Limit: new(int64(7))}
		if err := match.ResolveOverride(&ov, &c.Rule, match.Options{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		e.Add(override.Row{RuleID: c.Rule.ID, ID: int64(i + 1), Match: ov.Match, Prefix: ov.Prefix, Limit: 7, Burst: -1})
	}
	return set.WithOverrides(e.Done(1, time.Now().UnixMilli()))
}

// replayed compares the log of play with a replay of it, event by event, and returns how many events there were and how
// often each operation was among them.
func replayed(t *testing.T, text string, edits []edit) (int, map[string]int) {
	t.Helper()
	log := NewLog(NewLines("log", strings.NewReader(text)))
	e, err := newEngine(edits[0].set, maxKeys)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	next, n, ops := 1, 0, map[string]int{}
	var a decide.Answer
	var got []records.Limit
	for {
		entry, err := log.Next(t.Context())
		if err != nil {
			break
		}
		for next < len(edits) && edits[next].at < entry.TS {
			e.use(edits[next].set)
			next++
		}
		n++
		from := entry.Event
		ops[from.Op]++
		if from.Folded > 0 || !from.Drawn {
			t.Fatalf("line %d is folded or not drawn", entry.Line)
		}
		if err := e.do(t.Context(), from, entry.TS, &a); err != nil {
			t.Fatalf("line %d, %s: %v", entry.Line, from.Op, err)
		}
		got = fromReplay(got[:0], &a)
		if a.Allowed() != from.Allowed || !slices.EqualFunc(got, from.Limits, sameLimit) {
			t.Fatalf("line %d, %s, request %q: replay %t %+v, log %t %+v", entry.Line, from.Op, from.RequestID, a.Allowed(), got,
				from.Allowed, from.Limits)
		}
	}
	if log.Corrupt+log.Late > 0 || len(e.part.left) > 0 {
		t.Errorf("corrupt %d, late %d, left out %v", log.Corrupt, log.Late, e.part.left)
	}
	return n, ops
}

// fromReplay appends the limits of an answer as an event has them.
func fromReplay(out []records.Limit, a *decide.Answer) []records.Limit {
	for i := range a.Limits {
		la := &a.Limits[i]
		l := records.Limit{Rule: la.Name(), Mode: la.Mode(), Limit: la.Decision.Limit, Allowed: la.Decision.Allowed,
			Weight: la.Weight, RetryAfterMS: la.Decision.RetryAfter}
		if la.Known && !la.Returned {
			l.Used = la.Decision.Used
		}
		out = append(out, l)
	}
	return out
}

// sameLimit compares all figures of a limit of an answer with those of an event.
func sameLimit(a, b records.Limit) bool {
	return a.Rule == b.Rule && a.Mode == b.Mode && a.Limit == b.Limit && a.Used == b.Used && a.Allowed == b.Allowed &&
		a.Weight == b.Weight && a.RetryAfterMS == b.RetryAfterMS
}

// A log of all decisions, replayed through the very rules that wrote it, has no difference in any figure.
func TestReplay_IsExact(t *testing.T) {
	n := 10_000
	if text := os.Getenv("SLUICE_BACKTEST_EVENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		text, edits := play(t, n, 1)
		got, ops := replayed(t, text, edits)
		if got < n*9/10 {
			t.Errorf("the log has %d events of %d operations", got, n)
		}
		for _, op := range records.Ops() {
			if ops[op] == 0 {
				t.Errorf("no %s was replayed", op)
			}
		}
	})
}
