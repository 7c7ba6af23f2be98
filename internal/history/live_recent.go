package history

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// RecentMinute contains the posts of all nodes for a minute.
type RecentMinute struct {
	Minute int64
	// Nodes maps the ids of the nodes that posted a second of the minute to their addresses, "" if the address is no
	// longer known.
	Nodes map[string]string
	// Rules are the figures by rule, of all requests under "", and of the requests of each node under NodePrefix and its
	// address.
	Rules map[string]Figures
	// Peak is the largest number of requests in a second of the minute.
	Peak int64
}

// summedMinute is the sum of the tens of a minute. It is immutable.
type summedMinute struct {
	tens  [6]map[string]Figures
	rules map[string]Figures
}

// Minutes returns the minutes from first to last. The board holds only the last three and the running one. With an
// *OwnError they contain the figures of this node only. Callers must not change them.
func (r *LiveReader) Minutes(ctx context.Context, first, last int64) ([]RecentMinute, error) {
	live := r.withoutRules(ctx)
	if live.Err != nil && !live.Own {
		return nil, live.Err
	}
	addresses := map[string]string{}
	for i := range live.Nodes {
		addresses[live.Nodes[i].ID] = live.Nodes[i].Address
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []RecentMinute
	for minute := first; minute <= last; minute++ {
		m := RecentMinute{Minute: minute, Nodes: map[string]string{}, Rules: maps.Clone(r.minuteOf(minute))}
		var perSecond [60]int64
		for field, text := range r.seconds[minute] {
			node := field[:max(0, strings.LastIndexByte(field, ':'))]
			f := postedOf(text, "")
			if second, ok := afterColon(field); ok && second < 60 {
				perSecond[second] += f.Total()
				m.Peak = max(m.Peak, perSecond[second])
			}
			m.Nodes[node] = addresses[node]
			add(m.Rules, "", f)
			if address := addresses[node]; address != "" {
				add(m.Rules, NodePrefix+address, f)
			}
		}
		out = append(out, m)
	}
	if live.Err != nil {
		return out, &OwnError{Since: live.At, Err: live.Err}
	}
	return out, nil
}

// minuteOf adds up the tens of a minute, unless they have not changed since the last call. The lock of live is held.
func (r *LiveReader) minuteOf(minute int64) map[string]Figures {
	var m summedMinute
	same := true
	known := r.minutes[minute]
	for i := range m.tens {
		m.tens[i] = r.allTens[minute*6+int64(i)]
		same = same && known != nil && reflect.ValueOf(m.tens[i]).Pointer() == reflect.ValueOf(known.tens[i]).Pointer()
	}
	if same {
		return known.rules
	}
	m.rules = map[string]Figures{}
	for _, ten := range m.tens {
		for rule, f := range ten {
			add(m.rules, rule, f)
		}
	}
	r.minutes[minute] = &m
	if len(r.minutes) > maxRecent {
		delete(r.minutes, slices.Min(slices.Collect(maps.Keys(r.minutes))))
	}
	return m.rules
}

// maxRecent is the largest number of minutes that a reader remembers: the minutes that are not read from the store.
const maxRecent = 5

// Seconds returns a point for each second from first to last, of a rule or of all requests (""). With an *OwnError the
// points count this node only.
func (r *LiveReader) Seconds(ctx context.Context, rule string, first, last int64) ([]Point, error) {
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
	out := make([]Point, last-first+1)
	for i := range out {
		out[i] = PointAt(first + int64(i))
	}
	at := func(start int64, field string) *Point {
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
					p.Add(postedOf(text, ""))
				}
			}
		}
	}
	for i, fields := range read[minutes:] {
		for field, text := range fields {
			p := at((first/10+int64(i))*10, field)
			if p != nil && strings.Contains(text, rule) {
				p.Add(postedOf(text, rule))
			}
		}
	}
	for i := range out {
		if out[i].Known {
			out[i].Peak = out[i].Total()
		}
	}
	return out, err
}

// Peaks returns the largest number of decisions in a second of a minute over all nodes by rule, if several nodes are
// live and the one with an id is the first of them; else nil. It is for the writer of that node.
func (r *LiveReader) Peaks(ctx context.Context, node string, minute int64) map[string]int64 {
	live := r.withoutRules(ctx)
	first, several := true, false
	for i := range live.Nodes {
		first = first && (live.Nodes[i].Silent || live.Nodes[i].ID >= node)
		several = several || live.Nodes[i].ID != node
	}
	if live.Err != nil || !first || !several {
		return nil
	}
	tables := []string{secondsTable(minute)}
	for ten := minute * 6; ten < minute*6+6; ten++ {
		tables = append(tables, tensTable(ten))
	}
	read, err := r.tables(ctx, tables)
	if err != nil {
		return nil // each node keeps its own peaks
	}
	seconds := map[int64]map[string]int64{}
	for i, fields := range read {
		for field, text := range fields {
			second, ok := afterColon(field)
			if !ok {
				continue
			}
			if i > 0 {
				second += int64(i-1) * 10
			}
			if seconds[second] == nil {
				seconds[second] = map[string]int64{}
			}
			eachPosted(text, func(rule string, f Figures) { seconds[second][rule] += f.Total() })
		}
	}
	peaks := map[string]int64{}
	for _, of := range seconds {
		for rule, n := range of {
			peaks[rule] = max(peaks[rule], n)
		}
	}
	return peaks
}

// PointAt is the point of a second of which nothing is known.
func PointAt(second int64) Point { return Point{At: time.Unix(second, 0).UTC(), Peak: -1} }
