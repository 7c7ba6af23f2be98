package fleet

import (
	"context"
	"sync"
	"time"
)

// Entry is one field of a table on a Board.
type Entry struct {
	// Table is the table's name, Field the field in it, Value replaces what was
	// there.
	Table, Field, Value string
	// TTL is how long the table lives from now on.
	TTL time.Duration
}

// Board is where nodes post their figures and read those of all. It is safe for
// concurrent use. Errors mean that it could not be reached; whatever was posted
// may be posted again.
type Board interface {
	// Post writes entries; the order does not matter.
	Post(ctx context.Context, entries []Entry) error
	// Read gives the fields of each table, an empty map for one that is not there.
	Read(ctx context.Context, tables []string) ([]map[string]string, error)
	// Drop removes fields of a table.
	Drop(ctx context.Context, table string, fields []string) error
	// Append adds lines to the one list of recent lines, of which the newest keep
	// are kept.
	Append(ctx context.Context, lines []string, keep int) error
	// Recent gives up to n lines, the newest first.
	Recent(ctx context.Context, n int) ([]string, error)
}

// Memory is a Board in this process, for a node that shares nothing. A restart
// forgets it.
type Memory struct {
	now func() time.Time

	mu     sync.Mutex
	tables map[string]*table
	lines  []string // oldest first
	swept  time.Time
}

type table struct {
	expires time.Time
	fields  map[string]string
}

var _ Board = (*Memory)(nil)

// NewMemory makes an empty board. now tells when tables end.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, tables: map[string]*table{}, swept: now()}
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
			t = &table{fields: map[string]string{}}
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
func (m *Memory) Append(_ context.Context, lines []string, keep int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, lines...)
	if over := len(m.lines) - keep; over > 0 {
		m.lines = append([]string(nil), m.lines[over:]...)
	}
	return nil
}

// Recent implements Board.
func (m *Memory) Recent(_ context.Context, n int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]string, 0, min(n, len(m.lines)))
	for i := len(m.lines) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, m.lines[i])
	}
	return out, nil
}
