package history

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Entry is one field of a table on a Board.
type Entry struct {
	// Value replaces the value of Field in the table called Table.
	Table, Field, Value string
	// TTL is how long the table is kept after the post.
	TTL time.Duration
}

// Board is where nodes post their figures and read the figures of all nodes. It is safe for concurrent use. An error
// means that the board is unreachable; a post may be repeated.
type Board interface {
	// Post writes entries in any order.
	Post(ctx context.Context, entries []Entry) error
	// Read returns the fields of each table, an empty map for a missing one.
	Read(ctx context.Context, tables []string) ([]map[string]string, error)
	// Drop removes fields of a table.
	Drop(ctx context.Context, table string, fields []string) error
	// Append adds lines to a list and keeps the newest.
	Append(ctx context.Context, list string, lines []string, keep int) error
	// Recent returns up to n lines of a list, newest first, without the first skip.
	Recent(ctx context.Context, list string, skip, n int) ([]string, error)
}

// Memory is a Board in this process, for a node without RedisBoard. A restart loses it.
type Memory struct {
	now func() time.Time

	mu     sync.Mutex
	tables map[string]*boardTable
	lists  map[string][]string // oldest first
	swept  time.Time
}

type boardTable struct {
	expires time.Time
	fields  map[string]string
}

func newBoardTable() *boardTable { return &boardTable{fields: map[string]string{}} }

var _ Board = (*Memory)(nil)

// NewMemory creates an empty board. Tables expire by now.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, tables: map[string]*boardTable{}, lists: map[string][]string{}, swept: now()}
}

// sweepEvery is how often expired tables are removed.
const sweepEvery = time.Minute

// Post implements Board.
func (m *Memory) Post(_ context.Context, entries []Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if now.Sub(m.swept) >= sweepEvery {
		m.swept = now
		for name, t := range m.tables {
			if !now.Before(t.expires) {
				delete(m.tables, name)
			}
		}
	}
	for _, e := range entries {
		t := m.tables[e.Table]
		if t == nil || !now.Before(t.expires) {
			t = newBoardTable()
			m.tables[e.Table] = t
		}
		t.fields[e.Field], t.expires = e.Value, now.Add(e.TTL)
	}
	return nil
}

// Read implements Board.
func (m *Memory) Read(_ context.Context, tables []string) ([]map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	out := make([]map[string]string, len(tables))
	for i, name := range tables {
		out[i] = map[string]string{}
		if t := m.tables[name]; t != nil && now.Before(t.expires) {
			for f, v := range t.fields {
				out[i][f] = v
			}
		}
	}
	return out, nil
}

// Drop implements Board.
func (m *Memory) Drop(_ context.Context, name string, fields []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tables[name]; t != nil {
		for _, f := range fields {
			delete(t.fields, f)
		}
	}
	return nil
}

// Append implements Board.
func (m *Memory) Append(_ context.Context, list string, lines []string, keep int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists[list] = append(m.lists[list], lines...)
	// Lines are dropped many at a time, so that an append rarely moves the kept lines.
	if all := m.lists[list]; len(all) > keep+keep/4 {
		m.lists[list] = slices.Clone(all[len(all)-keep:])
	}
	return nil
}

// Recent implements Board.
func (m *Memory) Recent(_ context.Context, list string, skip, n int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := m.lists[list]
	lines = lines[:max(0, len(lines)-skip)]
	out := slices.Clone(lines[max(0, len(lines)-n):])
	slices.Reverse(out)
	return out, nil
}
