package decide

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pages returns the names of a list, page by page.
func pages(t *testing.T, list ReservationList, most int) (names []string) {
	t.Helper()
	for after := ""; ; {
		bodies, next, err := list.Page(t.Context(), after, most)
		if err != nil || len(bodies) > most {
			t.Fatalf("%d of %d, %v", len(bodies), most, err)
		}
		for _, b := range bodies {
			names = append(names, string(b))
		}
		if after = next; next == "" {
			return names
		}
	}
}

func change(t *testing.T, list ReservationList, c *ListChange) {
	t.Helper()
	if list.Write(t.Context(), []*ListChange{c}); c.Err != nil {
		t.Fatal(c.Err)
	}
}

func TestMemoryList_IsAPlainListInOrder(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	list := NewReservationList(func() time.Time { return now })
	r := rand.New(rand.NewPCG(1, 2))
	due, held := map[string]int64{}, map[string]int64{}
	for step := range 3000 {
		name := fmt.Sprintf("g%d.x", r.IntN(200))
		switch r.IntN(8) {
		case 0:
			change(t, list, &ListChange{Op: ListRemove, Name: name})
			delete(due, name)
			delete(held, name)
		case 1, 2:
			change(t, list, &ListChange{Op: ListSettle, Name: name, MS: 5000})
			delete(due, name)
		case 3:
			now = now.Add(time.Duration(r.IntN(700)) * time.Millisecond)
			found, _ := list.Due(t.Context(), 3)
			for _, e := range found {
				name := e.Name
				if at, open := due[name]; !open || at > now.UnixMilli() {
					t.Fatalf("step %d: %s is not due", step, name)
				}
				due[name] = now.UnixMilli() + claimed
			}
		default:
			life := int64(r.IntN(20_000))
			change(t, list, &ListChange{Name: name, MS: life, Body: []byte(name), Units: map[string]int64{"rule": life}})
			due[name] = now.UnixMilli() + life + dueMargin
			held[name] = life
		}
		want := slices.SortedFunc(maps.Keys(due), func(a, b string) int {
			return inOrder(&memoryEntry{name: a, due: due[a]}, &memoryEntry{name: b, due: due[b]})
		})
		if got := pages(t, list, 1+r.IntN(90)); !slices.Equal(got, want) {
			t.Fatalf("step %d: got %v\nwant %v", step, got, want)
		}
		var units int64
		for name := range due {
			units += held[name]
		}
		if got, _ := list.Units(t.Context()); got["rule"] != units {
			t.Fatalf("step %d: %d units, want %d", step, got["rule"], units)
		}
	}
}

func TestMemoryList_OfMoreUnitsThanASumHolds(t *testing.T) {
	list := NewReservationList(time.Now)
	for i := range 1100 {
		change(t, list, &ListChange{Name: fmt.Sprintf("a.%d", i), MS: 1000, Units: map[string]int64{"rule": 1 << 53}})
	}
	if got, _ := list.Units(t.Context()); got["rule"] <= 0 {
		t.Errorf("open are %v", got)
	}
	for i := range 1100 {
		change(t, list, &ListChange{Op: ListRemove, Name: fmt.Sprintf("a.%d", i)})
	}
	if got, _ := list.Units(t.Context()); len(got) > 0 {
		t.Errorf("after all ended: %v", got)
	}
}

// A page is read under the lock that reserves wait for.
func TestMemoryList_APageDoesNotSortTheList(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	list := NewReservationList(func() time.Time { return now })
	for i := range 20_000 {
		change(t, list, &ListChange{Name: fmt.Sprintf("g%d.x", i), MS: int64(i)})
	}
	allocs := testing.AllocsPerRun(1, func() { _, _, _ = list.Page(t.Context(), "0:1800000005000:g3.x", 10) })
	if allocs > 100 {
		t.Errorf("a page of 10 entries makes %v allocations", allocs)
	}
}

// slowList has pages that match nothing without end, each read in the time that its call has.
type slowList struct {
	ReservationList
	short bool
}

func (l *slowList) Page(ctx context.Context, _ string, _ int) ([][]byte, string, error) {
	end, ok := ctx.Deadline()
	l.short = l.short || ok && time.Until(end) <= DefaultTimeout
	return [][]byte{[]byte("{}")}, "0:1:x", nil
}

func TestListReservations_HasMoreTimeThanACheck(t *testing.T) {
	list := &slowList{}
	c := &Checker{opt: CheckerOptions{Open: NewOpenReservations(list, nil), Timeout: DefaultTimeout}}
	_, next, err := c.ListReservations(t.Context(), &OpenWant{Rule: "no such", Before: 1, Most: 5})
	if err != nil || next != "0:1:x" || list.short {
		t.Errorf("next %q, %v; within the time of a check: %t", next, err, list.short)
	}
}
