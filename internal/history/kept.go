package history

import (
	"slices"
	"sync"
	"time"
)

// maxTables is the largest number of tables that a Reader keeps.
const maxTables = 32

// tableKey selects a table of all rules or nodes.
type tableKey struct {
	by       string
	from, to int64
	step     time.Duration
}

// freshFor is how long a table with a step is kept.
func (k *tableKey) freshFor() time.Duration {
	switch k.step {
	case time.Minute:
		return 2 * time.Second
	case time.Hour:
		return 20 * time.Second
	}
	return time.Minute
}

// keptTable are the rows of a table. With 10,000 rules adding them up takes long, and many pages ask for the same ones.
type keptTable struct {
	mu   sync.Mutex
	at   time.Time
	rows []Row
}

// keptRows are the rows of a table, which are read again when they are no longer fresh. Of concurrent callers one
// reads. Rows with something missing are not kept.
func (l *loader) keptRows(key tableKey, read func() []Row) []Row {
	l.mu.Lock()
	t := l.tables[key]
	if t == nil {
		if len(l.tables) >= maxTables {
			l.tables = nil
		}
		if l.tables == nil {
			l.tables = map[tableKey]*keptTable{}
		}
		t = &keptTable{}
		l.tables[key] = t
	}
	l.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := l.now.Sub(t.at); age < 0 || age >= key.freshFor() {
		rows := read()
		if rows = rows[:min(len(rows), MaxRows)]; l.err() != nil {
			return rows
		}
		t.at, t.rows = l.now, rows
	}
	return slices.Clone(t.rows)
}
