package decide

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// NewReservationList returns a list in the memory of one node, for counters that are in its memory too. What is open at
// a restart stays charged.
func NewReservationList(now func() time.Time) ReservationList {
	return &memoryList{now: now, entries: map[string]*memoryEntry{}, groups: map[string]string{}}
}

type memoryList struct {
	now     func() time.Time
	mu      sync.Mutex
	entries map[string]*memoryEntry
	groups  map[string]string // the name of each group's entry, "" for several
}

type memoryEntry struct {
	name  string
	body  []byte
	due   int64            // ms since the epoch
	units map[string]int64 // nil once it is settled
}

// dueMargin is how much later than its end a reservation is settled, because clocks of nodes differ, and claimed for
// how long a node has it to itself. Both in ms.
const dueMargin, claimed = 1000, 2000

func listGroup(name string) string { return name[:strings.IndexByte(name, '.')] }

func (m *memoryList) Put(_ context.Context, name string, life int64, body []byte, units map[string]int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other, ok := m.groups[listGroup(name)]; !ok || other == name || other != "" && m.entries[other] == nil {
		m.groups[listGroup(name)] = name
	} else {
		m.groups[listGroup(name)] = ""
	}
	if units == nil {
		units = map[string]int64{}
	}
	m.entries[name] = &memoryEntry{name, body, m.now().UnixMilli() + life + dueMargin, units}
	return nil
}

func (m *memoryList) Find(_ context.Context, group string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok := m.groups[group]
	if e := m.entries[name]; e != nil {
		return e.body, false, nil
	}
	return nil, ok && name == "", nil
}

func (m *memoryList) Settle(_ context.Context, name string, after int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[name]; e != nil {
		e.units, e.due = nil, m.now().UnixMilli()+after
	}
	return nil
}

func (m *memoryList) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(name)
	return nil
}

// remove forgets an entry, and its group. The others of a group of several are then not found by it.
func (m *memoryList) remove(name string) {
	delete(m.entries, name)
	if of, ok := m.groups[listGroup(name)]; ok && (of == name || of == "") {
		delete(m.groups, listGroup(name))
	}
}

func (m *memoryList) Due(_ context.Context, most int) (names []string, bodies [][]byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMilli()
	for name, e := range m.entries {
		switch {
		case e.due > now:
		case e.units == nil:
			m.remove(name)
		case len(names) < most:
			e.due = now + claimed
			names, bodies = append(names, name), append(bodies, e.body)
		}
	}
	return names, bodies, nil
}

func (m *memoryList) Page(_ context.Context, after string, most int) (bodies [][]byte, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, after, _ = strings.Cut(after, ":") // the only slot
	at, behind, _ := strings.Cut(after, ":")
	want := pad(at) + behind
	list := make([]*memoryEntry, 0, len(m.entries))
	for _, e := range m.entries {
		if e.units != nil && cmp.Compare(place(e), want) > 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *memoryEntry) int { return cmp.Compare(place(a), place(b)) })
	for i, e := range list {
		if i == most {
			return bodies, next, nil
		}
		bodies, next = append(bodies, e.body), "0:"+strconv.FormatInt(e.due, 10)+":"+e.name
	}
	return bodies, "", nil
}

// place orders entries by when they are due.
func place(e *memoryEntry) string { return pad(strconv.FormatInt(e.due, 10)) + e.name }

// pad makes numbers sort as text.
func pad(number string) string { return strings.Repeat("0", max(0, 16-len(number))) + number }

func (m *memoryList) Units(context.Context) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := map[string]int64{}
	for _, e := range m.entries {
		for rule, n := range e.units {
			sum[rule] += n
		}
	}
	return sum, nil
}
