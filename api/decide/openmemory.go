package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// memoryListBytes bounds the list in memory: about 100,000 reservations, open or settled in the last minute.
	memoryListBytes = 128 << 20
	// memoryEntryBytes is what an entry takes beside its name and body.
	memoryEntryBytes = 512
)

// errListFull means that the list in memory has no room for another reservation. It is not listed, and stays charged at
// its end if nobody settles it.
var errListFull = errors.New("the list of open reservations is full")

// NewReservationList returns a list in the memory of one node, for counters that are in its memory too. What is open at
// a restart stays charged.
func NewReservationList(now func() time.Time) ReservationList {
	return &memoryList{now: now, most: memoryListBytes, entries: map[string]*memoryEntry{}, groups: map[string]string{},
		seconds: map[int64]map[string]*memoryEntry{}, units: map[string]int64{}}
}

// memoryList is called under locks that reserves wait for, so no call looks at all entries.
type memoryList struct {
	now     func() time.Time
	mu      sync.Mutex
	most    int // bytes
	bytes   int // of all entries
	entries map[string]*memoryEntry
	groups  map[string]string                 // the name of each group's entry, "" for several
	seconds map[int64]map[string]*memoryEntry // by the second in which they are due; lives are short, so they are few
	units   map[string]int64                  // of all entries
}

type memoryEntry struct {
	name    string
	version int64 // of the change that put it
	body    []byte
	due     int64            // ms since the epoch
	units   map[string]int64 // that are in the sums; nil once it is settled
}

// dueMargin is how much later than its end a reservation is settled, because clocks of nodes differ, and claimed for
// how long a node has it to itself. Both in ms.
const dueMargin, claimed = 1000, 2000

func listGroup(name string) string { return name[:strings.IndexByte(name, '.')] }

func (m *memoryList) Write(_ context.Context, changes []*ListChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		switch c.Op {
		case ListPut:
			c.Err = m.put(c)
		case ListSettle:
			m.settle(c)
		default:
			if e := m.entries[c.Name]; e == nil || e.version <= c.Version {
				m.remove(c.Name)
			}
		}
	}
}

func (m *memoryList) put(c *ListChange) error {
	name, units, was := c.Name, map[string]int64{}, m.entries[c.Name]
	e := &memoryEntry{name: name, version: c.Version, body: c.Body, units: units}
	switch {
	case was == nil && m.bytes+e.size() > m.most:
		return errListFull
	case was != nil && was.units != nil && was.version > c.Version:
		return nil
	}
	if other, ok := m.groups[listGroup(name)]; !ok || other == name || other != "" && m.entries[other] == nil {
		m.groups[listGroup(name)] = name
	} else {
		m.groups[listGroup(name)] = ""
	}
	if was != nil {
		m.drop(was)
	}
	for rule, n := range c.Units {
		if n <= math.MaxInt64-m.units[rule] { // else the sum stays as it is
			units[rule] = n
			m.units[rule] += n
		}
	}
	m.entries[name] = e
	m.bytes += e.size()
	m.dueAt(e, m.now().UnixMilli()+c.MS+dueMargin)
	return nil
}

// size is how many bytes an entry takes.
func (e *memoryEntry) size() int { return memoryEntryBytes + len(e.name) + len(e.body) }

// dueAt says when an entry is due that is not among those of a second.
func (m *memoryList) dueAt(e *memoryEntry, at int64) {
	e.due = at
	second := m.seconds[at/1000]
	if second == nil {
		second = map[string]*memoryEntry{}
		m.seconds[at/1000] = second
	}
	second[e.name] = e
}

// takeOut takes an entry out of those of its second.
func (m *memoryList) takeOut(e *memoryEntry) {
	second := m.seconds[e.due/1000]
	if delete(second, e.name); len(second) == 0 {
		delete(m.seconds, e.due/1000)
	}
}

// release forgets the units of an entry.
func (m *memoryList) release(e *memoryEntry) {
	for rule, n := range e.units {
		if m.units[rule] -= n; m.units[rule] <= 0 {
			delete(m.units, rule)
		}
	}
	e.units = nil
}

func (m *memoryList) drop(e *memoryEntry) {
	m.release(e)
	m.takeOut(e)
	delete(m.entries, e.name)
	m.bytes -= e.size()
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

func (m *memoryList) settle(c *ListChange) {
	if e := m.entries[c.Name]; e != nil {
		m.release(e)
		m.takeOut(e)
		m.dueAt(e, m.now().UnixMilli()+c.MS)
	}
}

// remove forgets an entry, and its group. The others of a group of several are then not found by it.
func (m *memoryList) remove(name string) {
	if e := m.entries[name]; e != nil {
		m.drop(e)
	}
	if of, ok := m.groups[listGroup(name)]; ok && (of == name || of == "") {
		delete(m.groups, listGroup(name))
	}
}

func (m *memoryList) Due(_ context.Context, most int) (due []DueEntry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMilli()
	for second, list := range m.seconds {
		if second > now/1000 {
			continue
		}
		for name, e := range list {
			switch {
			case e.due > now:
			case e.units == nil:
				m.remove(name)
			case len(due) == most:
				return due, nil
			default:
				m.takeOut(e)
				m.dueAt(e, now+claimed)
				due = append(due, DueEntry{name, e.version, e.body})
			}
		}
	}
	return due, nil
}

func (m *memoryList) Page(_ context.Context, after string, most int) (bodies [][]byte, next string, err error) {
	var behind memoryEntry
	if parts := strings.SplitN(after, ":", 3); len(parts) == 3 { // the first is the only slot
		behind.due, _ = strconv.ParseInt(parts[1], 10, 64)
		behind.name = parts[2]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*memoryEntry
	for _, second := range slices.Sorted(maps.Keys(m.seconds)) {
		if second < behind.due/1000 {
			continue
		}
		for _, e := range m.seconds[second] {
			if e.units != nil && inOrder(e, &behind) > 0 {
				list = amongFirst(list, e, most+1)
			}
		}
		if len(list) > most {
			break
		}
	}
	for _, e := range list[:min(most, len(list))] {
		bodies = append(bodies, e.body)
	}
	if len(list) > most {
		next = fmt.Sprintf("0:%d:%s", list[most-1].due, list[most-1].name)
	}
	return bodies, next, nil
}

// inOrder orders entries by when they are due.
func inOrder(a, b *memoryEntry) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.name, b.name))
}

// amongFirst puts e into an ordered list if it is among the first most.
func amongFirst(list []*memoryEntry, e *memoryEntry, most int) []*memoryEntry {
	if len(list) == most && inOrder(e, list[most-1]) > 0 {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, e, inOrder)
	list = slices.Insert(list, at, e)
	return list[:min(most, len(list))]
}

func (m *memoryList) Units(context.Context) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.units), nil
}
