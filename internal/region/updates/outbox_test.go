package updates

import (
	"testing"

	"sluice/limiter"
)

func exported(key string, taken, lease int64) limiter.Exported {
	return limiter.Exported{Key: limiter.Key(key), Sums: limiter.Sums{Born: 1, Taken: taken}, Lease: lease,
		Guard: limiter.Guard{Share: 7}}
}

// keys are the keys of some sums, and what was taken.
func taken(sums []limiter.Exported) map[limiter.Key]int64 {
	out := map[limiter.Key]int64{}
	for _, s := range sums {
		out[s.Key] = s.Sums.Taken
	}
	return out
}

// takenOf is taken of some news.
func takenOf(news []Update) map[limiter.Key]int64 {
	var sums []limiter.Exported
	for _, n := range news {
		sums = append(sums, n.Exported)
	}
	return taken(sums)
}

func TestOutbox_ConfirmsWhatEveryPeerHas(t *testing.T) {
	o := NewOutbox(10, "us", "ap")
	o.Add([]limiter.Exported{exported("a", 1, 1), exported("b", 2, 1)})
	o.Accepted("us", o.Next("us", 10))
	if got := o.Confirmed(); len(got) != 0 || len(o.Next("us", 10)) != 0 {
		t.Errorf("%+v is confirmed though one peer lacks it", got)
	}
	o.Accepted("ap", o.Next("ap", 1))
	if got := taken(o.Confirmed()); len(got) != 1 || got["a"] != 1 || o.Len() != 1 {
		t.Errorf("%v, want a", got)
	}
	if got := takenOf(o.Next("ap", 10)); got["b"] != 2 || len(got) != 1 {
		t.Errorf("%v, want b", got)
	}
}

func TestOutbox_WhatChangedSinceIsToldAgain(t *testing.T) {
	o := NewOutbox(10, "us")
	o.Add([]limiter.Exported{exported("a", 1, 1)})
	news := o.Next("us", 10)
	o.Add([]limiter.Exported{exported("a", 5, 2)})
	if got := o.Confirmed(); len(got) != 1 || got[0].Lease != 1 || got[0].Guard.Share != 0 {
		t.Errorf("%+v, want the first lease of a, which the second one replaces, without its guard", got)
	}
	o.Accepted("us", news)
	if got := takenOf(o.Next("us", 10)); got["a"] != 5 || o.Len() != 1 {
		t.Errorf("%v, want the 5 units of a", got)
	}
	if got := o.Confirmed(); len(got) != 1 || got[0].Lease != 1 || got[0].Guard.Share != 7 {
		t.Errorf("%+v, want the first export of a, which sets a guard", got)
	}
}

func TestOutbox_TellsOfABucketOnceInAMessage(t *testing.T) {
	o := NewOutbox(10, "us", "ap")
	for lease := int64(1); lease < 4; lease++ {
		o.Add([]limiter.Exported{exported("a", lease, lease), exported("b", lease, lease)})
		o.Accepted("us", o.Next("us", 10))
		o.Accepted("ap", o.Next("ap", 1))
	}
	o.Add([]limiter.Exported{exported("a", 9, 9)})
	if news := o.Next("ap", 10); len(news) != 2 {
		t.Errorf("%+v, want a and b", news)
	}
}

// Where the clock of the store has stepped back, later leases have smaller names.
func TestOutbox_ALaterExportIsNewerWhateverItsLease(t *testing.T) {
	o := NewOutbox(10, "us")
	o.Add([]limiter.Exported{exported("a", 1, 9)})
	o.Accepted("us", o.Next("us", 10))
	o.Add([]limiter.Exported{exported("b", 1, 9)})
	news := o.Next("us", 10)
	o.Add([]limiter.Exported{exported("b", 2, 5)})
	o.Accepted("us", news)
	o.Accepted("us", o.Next("us", 10))
	if got := o.Confirmed(); o.Len() != 0 || got[len(got)-1].Lease != 5 {
		t.Errorf("%d waiting, %+v, want the latest lease of b at the end", o.Len(), got)
	}
}

// A lease that is shorter than an answer takes must not make a region tell the same for ever.
func TestOutbox_TheSameUnderAnotherLeaseIsNotNews(t *testing.T) {
	o := NewOutbox(10, "us", "ap")
	o.Add([]limiter.Exported{exported("a", 1, 1)})
	news := o.Next("us", 10)
	o.Accepted("ap", news)
	o.Add([]limiter.Exported{exported("a", 1, 2)})
	o.Accepted("us", news)
	if got := o.Confirmed(); len(got) != 2 || got[1].Lease != 2 {
		t.Errorf("%+v, want the latest lease of a at the end", got)
	}
}

func TestOutbox_IsBounded(t *testing.T) {
	o := NewOutbox(2, "us")
	if n := o.Add([]limiter.Exported{exported("a", 1, 1), exported("b", 1, 1), exported("c", 1, 1)}); n != 1 {
		t.Errorf("%d dropped, want 1", n)
	}
	if n := o.Add([]limiter.Exported{exported("c", 2, 2)}); n != 0 || o.Len() != 2 {
		t.Errorf("%d dropped, %d waiting, want none and 2", n, o.Len())
	}
	if got := takenOf(o.Next("us", 10)); got["b"] != 1 || got["c"] != 2 || len(got) != 2 {
		t.Errorf("%v, want those that came last", got)
	}
}

// What is under way is not sent again with each interval, and what was lost comes after what else there is.
func TestOutbox_WhatIsUnderWayIsToldAgainOnceItIsLost(t *testing.T) {
	o := NewOutbox(10, "us")
	o.Add([]limiter.Exported{exported("a", 1, 1), exported("b", 1, 1)})
	news := o.Next("us", 1)
	if got := takenOf(o.Next("us", 10)); got["b"] != 1 || len(got) != 1 {
		t.Errorf("%v while a is under way, want b", got)
	}
	o.Add([]limiter.Exported{exported("c", 1, 1)})
	o.Lost("us", news)
	if got := o.Next("us", 10); len(got) != 2 || got[0].Key != "c" || got[1].Key != "a" {
		t.Errorf("%v, want c and a", got)
	}
	o.Add([]limiter.Exported{exported("a", 2, 2)})
	o.Lost("us", news) // late: a newer message is to be sent in any case
	if got := takenOf(o.Next("us", 10)); got["a"] != 2 || len(got) != 1 {
		t.Errorf("%v, want the newer a", got)
	}
}

func TestOutbox_WhoeverIsAwayKeepsNoGuardBack(t *testing.T) {
	o := NewOutbox(10, "us", "asia")
	o.SetCutOff([]string{"asia"})
	for n := range int64(2) {
		o.Add([]limiter.Exported{exported("a", 3+n, 1+n)})
		news := o.Next("us", 10)
		if o.Confirmed(); len(news) != 1 {
			t.Fatalf("%v for us, want one", news)
		}
		o.Accepted("us", news)
		if c := o.Confirmed(); len(c) != 1 || c[0].Lease != 0 || c[0].Sums.Taken != 3+n || o.Len() != 1 {
			t.Errorf("%+v and %d waiting, want the guard alone, once", c, o.Len())
		}
		o.Accepted("us", news)
		if c := o.Confirmed(); len(c) != 0 {
			t.Errorf("%+v, want it once", c)
		}
	}
	o.Accepted("asia", o.Next("asia", 10))
	if c := o.Confirmed(); len(c) != 1 || c[0].Lease == 0 || o.Len() != 0 {
		t.Errorf("%+v, want the lease", c)
	}
}

func TestOutbox_WithoutPeersConfirmsAtOnce(t *testing.T) {
	o := NewOutbox(2)
	o.Add([]limiter.Exported{exported("a", 1, 1), exported("b", 1, 1)})
	if got := taken(o.Confirmed()); len(got) != 2 || len(o.Confirmed()) != 0 {
		t.Errorf("%v, want both, once", got)
	}
}
