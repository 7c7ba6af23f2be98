package main

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
)

// meter adds up the counters of all processes of a node.
type meter struct {
	mu   sync.Mutex
	past map[string]float64 // of processes that have ended
	last map[string]float64 // of the current process, as last read
}

// read reads the counters that the report needs.
func (m *meter) read(ctx context.Context, addr string) {
	status, body, err := get(ctx, "http://"+addr+"/metrics")
	if err != nil || status != 200 {
		return // the last reading stays
	}
	now := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || !strings.HasPrefix(name, "sluice_") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			now[name] = v
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = now
}

// keep adds the figures of a process that has ended.
func (m *meter) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.past == nil {
		m.past = map[string]float64{}
	}
	for name, v := range m.last {
		m.past[name] += v
	}
	m.last = nil
}

// totals adds up one family of counters over all nodes, by label set.
func (f *fleet) totals(family string) map[string]float64 {
	out := map[string]float64{}
	for _, n := range f.nodes {
		n.metrics.mu.Lock()
		for name, v := range n.metrics.past {
			if (name == family || strings.HasPrefix(name, family+"{")) && v > 0 {
				out[strings.TrimPrefix(name, family)] += v
			}
		}
		n.metrics.mu.Unlock()
	}
	return out
}

// admitted returns the units that the nodes admitted according to their metrics, by what decided.
func (f *fleet) admitted(by string) int64 {
	return int64(f.totals("sluice_account_units_total")[`{by="`+by+`",mode="enforce",outcome="admitted"}`])
}

// settled returns the results for the units that fail mode local admitted.
func (f *fleet) settled(fate string) int64 {
	return int64(f.totals("sluice_local_settled_units_total")[`{fate="`+fate+`"}`])
}
