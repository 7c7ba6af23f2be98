package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// exportsLost exports, and checks whether the store says that its data are lost.
func exportsLost(t *testing.T, s *redisstore.Store, lost bool, when string) []limiter.Exported {
	t.Helper()
	sums, err := s.Export(t.Context(), 1000, time.Hour)
	if errors.Is(err, limiter.ErrLost) != lost || err != nil && !lost || lost && len(sums) > 0 {
		t.Errorf("%s: %d exported, %v; lost %v", when, len(sums), err, lost)
	}
	return sums
}

// mark begins or ends a restore.
func mark(t *testing.T, do func() (bool, error), want bool, when string) {
	t.Helper()
	if done, err := do(); err != nil || done != want {
		t.Errorf("%s: %v, %v, want %v", when, done, err, want)
	}
}

// Nothing is exported from a server that was emptied until that is restored, whatever a node knows of it.
func TestStore_ExportsNothingBeforeWhatWasLostIsRestored(t *testing.T) {
	server := testenv.Redis(t)
	opt := redisstore.Options{Regions: limiter.Regions{Count: 2, Restores: true}}
	s, other := open(t, client(t, server.URL()), opt), open(t, client(t, server.URL()), opt)
	begin := func(s *redisstore.Store, name string) func() (bool, error) {
		return func() (bool, error) { return s.BeginRestore(t.Context(), name) }
	}
	end := func(s *redisstore.Store, name string) func() (bool, error) {
		return func() (bool, error) { return s.EndRestore(t.Context(), name) }
	}
	a := ask(entity(), 1, shop)
	a.Spans = true
	exportsLost(t, s, true, "a new server")
	do(t, s, limiter.OpTake, "", a)
	exportsLost(t, s, true, "after a take")
	mark(t, begin(s, "1"), true, "begin")
	mark(t, begin(other, "2"), true, "begin at another node")
	exportsLost(t, s, true, "during a restore")
	mark(t, end(s, "0"), false, "end of one that never began")
	refused := func() (bool, error) { return s.EndRestore(t.Context(), "1", a.Key) }
	mark(t, refused, false, "end after a bucket was refused")
	mark(t, end(s, "1"), true, "end of the first")
	mark(t, end(other, "2"), false, "end of the second")
	mark(t, begin(s, "3"), false, "begin when nothing is lost")
	if sums := exportsLost(t, s, false, "after the restore"); len(sums) != 1 {
		t.Errorf("%d buckets exported, want 1", len(sums))
	}
	for _, round := range []string{"4", "5"} { // in the second one the data are lost once more
		if _, err := server.Command(t.Context(), "FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		do(t, other, limiter.OpTake, "", a)
		exportsLost(t, other, true, "after FLUSHALL")
		if round == "5" {
			mark(t, end(s, "4"), false, "end of a restore whose data are lost")
		}
		mark(t, begin(s, round), true, "begin after FLUSHALL")
	}
	mark(t, end(s, "5"), true, "end after FLUSHALL")
	exportsLost(t, other, false, "after all")
}

// A shard of a cluster that was emptied exports nothing, and the others go on.
func TestStore_OnAClusterAnEmptyShardAloneIsRestored(t *testing.T) {
	cluster := testenv.Cluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{Regions: limiter.Regions{Count: 2, Restores: true}})
	mark(t, func() (bool, error) { return s.BeginRestore(t.Context(), "1") }, true, "begin")
	mark(t, func() (bool, error) { return s.EndRestore(t.Context(), "1") }, true, "end")
	var asks []limiter.Ask
	for _, node := range cluster.Nodes[:2] {
		a := ask(entityOn(t, cluster, node), 1, shop)
		a.Spans = true
		do(t, s, limiter.OpTake, "", a)
		asks = append(asks, a)
	}
	if sums := exportsLost(t, s, false, "before"); len(sums) != 2 {
		t.Fatalf("%d buckets exported, want 2", len(sums))
	}
	if _, err := cluster.Nodes[0].Command(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	for _, a := range asks {
		do(t, s, limiter.OpTake, "", a)
	}
	sums, err := s.Export(t.Context(), 1000, time.Hour)
	if !errors.Is(err, limiter.ErrLost) || len(sums) != 1 || sums[0].Key != asks[1].Key {
		t.Errorf("exported %v, %v, want the bucket of the shard that has its data", sums, err)
	}
	restore := func(a limiter.Ask) limiter.Result {
		var res limiter.Result
		m := limiter.Sums{Born: 1, Shape: 1, Taken: 1}
		req := limiter.Request{Op: limiter.OpRestore, Sums: &m, Asks: []limiter.Ask{a}}
		if err := s.Do(t.Context(), &req, &res); err != nil {
			t.Fatal(err)
		}
		return res
	}
	mark(t, func() (bool, error) { return s.BeginRestore(t.Context(), "2") }, true, "begin")
	if !restore(asks[0]).Allowed || restore(asks[1]).Allowed {
		t.Error("a restore is of the shard that was emptied, and of no other")
	}
	mark(t, func() (bool, error) { return s.EndRestore(t.Context(), "2", asks[0].Key) }, true, "end of all others")
	if _, err := s.Export(t.Context(), 1000, time.Hour); !errors.Is(err, limiter.ErrLost) {
		t.Errorf("%v: the slot of a bucket that was refused is not to be restored any more", err)
	}
	mark(t, func() (bool, error) { return s.BeginRestore(t.Context(), "3") }, true, "begin in its slot")
	mark(t, func() (bool, error) { return s.EndRestore(t.Context(), "3") }, true, "end")
	for _, a := range asks {
		do(t, s, limiter.OpTake, "", a)
	}
	found := map[limiter.Key]bool{}
	for _, e := range exportsLost(t, s, false, "after") {
		found[e.Key] = true
	}
	if !found[asks[0].Key] {
		t.Errorf("exported %v, not the bucket of the shard that was emptied", found)
	}
}

// Every bucket comes once at least, whatever else a server holds.
func TestStore_RecallsAllBucketsInPages(t *testing.T) {
	server := testenv.Redis(t)
	c := client(t, server.URL())
	s := open(t, c, redisstore.Options{Prefix: "a*:"})
	foreign := open(t, c, redisstore.Options{Prefix: "ab:"})
	want, e := map[limiter.Key]int64{}, entity()
	for i := range 3000 {
		l := limits(month)[i%3]
		a := ask(e, i, l)
		a.Spans, a.Weight = true, 2
		do(t, s, limiter.OpCharge, "", a)
		a.Key = ask(e+"x", i, l).Key
		a.Spans = false
		do(t, s, limiter.OpCharge, "", a)
		a.Key = ask(e+"y", i, l).Key
		a.Spans = true
		do(t, foreign, limiter.OpCharge, "", a)
		if i%500 == 0 {
			m := limiter.Sums{Born: 5, Shape: 1, Taken: 7}
			a.Key, a.Weight = ask(e, i, l).Key, 0
			req := limiter.Request{Op: limiter.OpApply, ID: "us", Sums: &m, Asks: []limiter.Ask{a}}
			if err := s.Do(t.Context(), &req, &limiter.Result{}); err != nil {
				t.Fatal(err)
			}
		}
		want[ask(e, i, l).Key] = int64(i)
	}
	pages, received := 0, map[limiter.Key]bool{}
	for cursor := ""; ; {
		known, next, err := s.Recall(t.Context(), "us", cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range known {
			if k.Sums.Taken == 2 {
				delete(want, k.Key)
			}
			for _, h := range k.Received {
				received[k.Key] = h.Region == "us" && h.Sums.Taken == 7
			}
		}
		if len(known) > 2000 {
			t.Errorf("a page has %d buckets", len(known))
		}
		if pages++; next == "" {
			break
		}
		cursor = next
	}
	if len(want) > 0 || len(received) != 6 || pages < 3 {
		t.Errorf("in %d pages %d buckets are missing, and %d of 6 have something from another region", pages, len(want),
			len(received))
	}
	if _, _, err := s.Recall(t.Context(), "us", "nonsense"); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
	if known, next, err := s.Recall(t.Context(), "us", fmt.Sprint(7, "-0")); err == nil && len(known)+len(next) > 0 {
		t.Errorf("a server that is not there: %v, %q", known, next)
	}
}
