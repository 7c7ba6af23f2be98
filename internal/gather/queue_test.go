package gather_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/gather"
)

type parcel struct {
	place           gather.Item[*parcel]
	id, calls, size int
}

// model is a queue as a slice.
type model []*parcel

func (m model) calls() (n int) {
	for _, p := range m {
		n += p.calls
	}
	return n
}

func (m model) ids() (ids []int) {
	for _, p := range m {
		ids = append(ids, p.id)
	}
	return ids
}

// take returns the batch, the ids of those that were asked about, and what stays.
func (m model) take(maxCalls, maxSize int, send func(*parcel) bool) (batch model, asked []int, rest model) {
	size := 0
	for n, p := range m {
		if len(batch) > 0 && (batch.calls()+p.calls > maxCalls || size+p.size > maxSize) {
			return batch, asked, m[n:]
		}
		asked = append(asked, p.id)
		if send(p) {
			batch, size = append(batch, p), size+p.size
		}
	}
	return batch, asked, nil
}

// After the same calls, a queue and a slice hold the same parcels.
func TestQueue_HoldsWhatASliceHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q gather.Queue[*parcel]
		var want, taken model
		var all []*parcel
		some := func(label string) func(*parcel) bool { // a third of the parcels
			r := rapid.IntRange(0, 2).Draw(t, label)
			return func(p *parcel) bool { return p.id%3 == r }
		}
		push := func(p *parcel) {
			q.Push(&p.place, p, p.calls, p.size)
			want = append(want, p)
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				p := &parcel{id: len(all), calls: rapid.IntRange(1, 4).Draw(t, "calls"), size: rapid.IntRange(0, 9).Draw(t, "size")}
				all = append(all, p)
				push(p)
			},
			"push again": func(*rapid.T) {
				if len(taken) == 0 {
					return
				}
				p := taken[0]
				taken, p.calls, p.size = taken[1:], p.calls+1, p.size+1
				push(p)
			},
			"put back": func(*rapid.T) {
				for _, p := range slices.Backward(taken) {
					q.PutBack(&p.place)
				}
				want, taken = slices.Concat(taken, want), nil
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				p := rapid.SampledFrom(all).Draw(t, "parcel")
				n := slices.Index(want, p)
				if got := q.Remove(&p.place); got != (n >= 0) {
					t.Fatalf("removed %v of %v: %v", p.id, want.ids(), got)
				}
				want = slices.DeleteFunc(slices.Clone(want), func(o *parcel) bool { return o == p })
			},
			"remove some": func(t *rapid.T) {
				gone := some("gone")
				var seen model
				for p := range q.All() {
					if seen = append(seen, p); gone(p) && !q.Remove(&p.place) {
						t.Fatalf("%d is shown but not in the queue", p.id)
					}
				}
				if diff := cmp.Diff(want.ids(), seen.ids()); diff != "" {
					t.Fatalf("they were shown as (-want +got):\n%s", diff)
				}
				want = slices.DeleteFunc(slices.Clone(want), gone)
			},
			"take": func(t *rapid.T) {
				maxCalls, maxSize := rapid.IntRange(1, 12).Draw(t, "calls"), rapid.IntRange(0, 30).Draw(t, "size")
				send, filter := func(*parcel) bool { return true }, rapid.Bool().Draw(t, "filter")
				if filter {
					send = some("sent")
				}
				batch, wantAsked, rest := want.take(maxCalls, maxSize, send)
				var asked []int
				ask := func(p *parcel) bool {
					asked = append(asked, p.id)
					return send(p)
				}
				if !filter {
					ask, wantAsked = nil, nil
				}
				got, calls := q.Take(slices.Clone(taken), maxCalls, maxSize, ask)
				taken = append(taken, batch...)
				if diff := cmp.Diff(taken.ids(), model(got).ids()); diff != "" || calls != batch.calls() {
					t.Fatalf("%d calls, want %d (-want +got):\n%s", calls, batch.calls(), diff)
				}
				if diff := cmp.Diff(wantAsked, asked); diff != "" {
					t.Fatalf("asked about (-want +got):\n%s", diff)
				}
				want = rest
			},
			"": func(t *rapid.T) {
				if q.Len() != want.calls() {
					t.Fatalf("%d calls wait, want %d", q.Len(), want.calls())
				}
				if diff := cmp.Diff(want.ids(), model(slices.Collect(q.All())).ids()); diff != "" {
					t.Fatalf("what waits (-want +got):\n%s", diff)
				}
			},
		})
	})
}

func TestQueue_AllocatesNothing(t *testing.T) {
	var q gather.Queue[*parcel]
	a, b := &parcel{}, &parcel{}
	into := make([]*parcel, 0, 2)
	if n := testing.AllocsPerRun(100, func() {
		q.Push(&a.place, a, 1, 1)
		q.Push(&b.place, b, 1, 1)
		q.Remove(&a.place)
		into, _ = q.Take(into[:0], 2, 2, nil)
		q.PutBack(&b.place)
		for p := range q.All() {
			q.Remove(&p.place)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
