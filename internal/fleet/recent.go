package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"sluice/internal/history"
)

var _ history.Recent = (*Reader)(nil)

// Seconds implements history.Recent.
func (r *Reader) Seconds(ctx context.Context, rule string, first, last int64) ([]history.Point, error) {
	var tables []string
	for minute := first / 60; minute <= last/60; minute++ {
		tables = append(tables, secondsTable(minute))
	}
	minutes := len(tables)
	if rule != "" {
		for ten := first / 10; ten <= last/10; ten++ {
			tables = append(tables, tensTable(ten))
		}
	}
	read, err := r.tables(ctx, tables)
	if read == nil {
		return nil, fmt.Errorf("read the figures of the last seconds: %w", err)
	}
	out := make([]history.Point, last-first+1)
	for i := range out {
		out[i] = history.PointAt(first + int64(i))
	}
	at := func(start int64, field string) *history.Point {
		n, ok := afterColon(field)
		if i := start + n - first; ok && i >= 0 && i < int64(len(out)) {
			return &out[i]
		}
		return nil
	}
	for i, fields := range read[:minutes] {
		for field, text := range fields {
			if p := at((first/60+int64(i))*60, field); p != nil {
				p.Known, p.Peak = true, max(p.Peak, 0)
				if rule == "" {
					p.Add(unpack(text))
				}
			}
		}
	}
	for i, fields := range read[minutes:] {
		for field, text := range fields {
			p := at((first/10+int64(i))*10, field)
			if p == nil || !strings.Contains(text, rule) {
				continue
			}
			p.Add(rulesPosted(text)[rule].figures())
		}
	}
	for i := range out {
		if out[i].Known {
			out[i].Peak = out[i].Total()
		}
	}
	return out, err
}

// Minutes implements history.Recent. Callers must not change the figures.
func (r *Reader) Minutes(ctx context.Context, first, last int64) ([]history.RecentMinute, error) {
	now := r.now()
	sums := make([]*summedMinute, max(0, last-first+1))
	var tables []string
	for i := range sums {
		if sums[i] = r.minutes.settled(first+int64(i), now); sums[i] == nil {
			tables = append(tables, minuteTable(first+int64(i)))
		}
	}
	var read []map[string]string
	var err error
	if tables != nil {
		if read, err = r.tables(ctx, tables); read == nil {
			return nil, fmt.Errorf("read the figures of the last minutes: %w", err)
		}
	}
	var whole time.Time
	if err == nil {
		whole = now
	}
	out := make([]history.RecentMinute, len(sums))
	var gaps []gap
	for i, m := range sums {
		minute := first + int64(i)
		if m == nil {
			m = r.minutes.sum(minute, read[0], whole)
			read = read[1:]
		}
		out[i] = history.RecentMinute{Minute: minute, Known: len(m.nodes) > 0, Rules: m.rules}
		for _, n := range m.nodes {
			if end := (minute + 1) * 60; n.until < end {
				gaps = append(gaps, gap{&out[i], n.node, n.address, n.until, end})
			}
		}
	}
	if gapErr := r.fill(ctx, gaps); err == nil {
		err = gapErr
	}
	return out, err
}

// gap is the end of a minute whose figures a node has posted by second only: the present minute, or that in which it
// died.
type gap struct {
	minute        *history.RecentMinute
	node, address string
	from, to      int64 // seconds; to is excluded
}

// fill adds what the nodes posted by second.
func (r *Reader) fill(ctx context.Context, gaps []gap) error {
	wanted := map[string]int{}
	var tables []string
	want := func(table string) {
		if _, there := wanted[table]; !there {
			wanted[table] = len(tables)
			tables = append(tables, table)
		}
	}
	for _, g := range gaps {
		want(secondsTable(g.minute.Minute))
		for ten := g.from / 10; ten*10 < g.to; ten++ {
			want(tensTable(ten))
		}
	}
	if tables == nil {
		return nil
	}
	read, err := r.tables(ctx, tables)
	if read == nil {
		return fmt.Errorf("read the figures of the last seconds: %w", err)
	}
	copied := map[*history.RecentMinute]bool{}
	for _, g := range gaps {
		if !copied[g.minute] { // others have the same map
			copied[g.minute], g.minute.Rules = true, maps.Clone(g.minute.Rules)
		}
		for sec := g.from; sec < g.to; sec++ {
			if text, ok := read[wanted[secondsTable(sec/60)]][fieldOf(g.node, sec%60)]; ok {
				f := unpack(text)
				add(g.minute.Rules, "", f)
				add(g.minute.Rules, history.NodePrefix+g.address, f)
			}
			if text, ok := read[wanted[tensTable(sec/10)]][fieldOf(g.node, sec%10)]; ok {
				for rule, p := range rulesPosted(text) {
					add(g.minute.Rules, rule, p.figures())
				}
			}
		}
	}
	return err
}

// Peaks implements history.Recent.
func (r *Reader) Peaks(ctx context.Context, minute int64) (map[string]int64, error) {
	tables := []string{secondsTable(minute)}
	for ten := minute * 6; ten < minute*6+6; ten++ {
		tables = append(tables, tensTable(ten))
	}
	read, err := r.tables(ctx, tables)
	if read == nil {
		return nil, fmt.Errorf("read the figures of the last seconds: %w", err)
	}
	peaks := map[string]int64{}
	var all [60]int64
	for field, text := range read[0] {
		if n, ok := afterColon(field); ok && n < 60 {
			all[n] += unpack(text).Total()
		}
	}
	for _, n := range all {
		peaks[""] = max(peaks[""], n)
	}
	for _, fields := range read[1:] {
		bySecond := map[int64]map[string]history.Figures{}
		for field, text := range fields {
			n, ok := afterColon(field)
			if !ok {
				continue
			}
			if bySecond[n] == nil {
				bySecond[n] = map[string]history.Figures{}
			}
			for rule, p := range rulesPosted(text) {
				add(bySecond[n], rule, p.figures())
			}
		}
		for _, of := range bySecond {
			for rule, f := range of {
				peaks[rule] = max(peaks[rule], f.Total())
			}
		}
	}
	if len(read[0]) == 0 {
		return nil, err // the seconds have expired
	}
	return peaks, err
}

// Tops implements history.Recent.
func (r *Reader) Tops(ctx context.Context, hour int64, rules []string) (map[string]history.Tops, error) {
	tables := make([]string, len(rules))
	for i, rule := range rules {
		tables[i] = topsTable(hour, rule)
	}
	read, err := r.tables(ctx, tables)
	if read == nil {
		return nil, fmt.Errorf("read the most active keys: %w", err)
	}
	out := map[string]history.Tops{}
	for i, fields := range read {
		var parts []history.Tops
		for _, text := range fields {
			var t history.Tops
			if json.Unmarshal([]byte(text), &t) == nil {
				parts = append(parts, t)
			}
		}
		if parts != nil {
			out[rules[i]] = history.MergeTops(parts)
		}
	}
	return out, err
}

// Forget implements history.Recent.
func (r *Reader) Forget(ctx context.Context, firstMinute, endMinute, hour int64, rules []string) error {
	var tables []string
	for m := firstMinute; m < endMinute; m++ {
		tables = append(tables, minuteTable(m))
	}
	for _, rule := range rules {
		tables = append(tables, topsTable(hour, rule))
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.board.Forget(ctx, tables)
}
