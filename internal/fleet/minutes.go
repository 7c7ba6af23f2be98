package fleet

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/history"
)

// maxSummed is the largest number of minutes that are remembered, the last ones: a few more than those that wait for
// the rule database while that is well.
const maxSummed = 10

var hashSeed = maphash.MakeSeed()

// hashOf is a hash of fields and their values, in any order.
func hashOf(fields map[string]string) uint64 {
	hash := uint64(len(fields))
	for field, value := range fields {
		hash += maphash.Comparable(hashSeed, [2]uint64{maphash.String(hashSeed, field), maphash.String(hashSeed, value)})
	}
	return hash
}

// summedTen is what the nodes posted of ten seconds. It is not changed.
type summedTen struct {
	hash  uint64 // of the posts
	rules map[string]history.Figures
}

// summedMinutes remembers the sums of minutes over the nodes. With 10,000 rules, adding them up takes longer than
// everything else that a page does, and a minute that is over rarely changes. The zero value is ready. It is safe for
// concurrent use.
type summedMinutes struct {
	mu   sync.Mutex
	kept map[int64]*summedMinute
	// read is when the posts of all nodes were last read.
	read map[int64]time.Time
}

// A minute that every node has posted whole is read again after settledFor, for a node that comes late, if it ended
// settledAfter ago: with many rules, reading posts costs more than anything else that a page does.
const (
	settledAfter = 15 * time.Second
	settledFor   = 10 * time.Second
)

// settled returns the sum of a minute that need not be read again, nil if it must be.
func (s *summedMinutes) settled(minute int64, now time.Time) *summedMinute {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.kept[minute]
	if m == nil || len(m.nodes) == 0 || now.Sub(time.Unix((minute+1)*60, 0)) < settledAfter {
		return nil
	}
	if age := now.Sub(s.read[minute]); age < 0 || age >= settledFor {
		return nil
	}
	for _, n := range m.nodes {
		if n.until < (minute+1)*60 {
			return nil
		}
	}
	return m
}

// summedMinute is what the nodes posted of a minute. It is not changed.
type summedMinute struct {
	hash  uint64 // of the posts
	nodes []minuteNode
	rules map[string]history.Figures
}

// minuteNode is a node that posted a minute: what it counted before until (s since the epoch).
type minuteNode struct {
	node, address string
	until         int64
}

// sum adds up the posts of a minute, by node, unless they are those of the last call. read is when they were read, the
// zero Time if they are not those of all nodes.
func (s *summedMinutes) sum(minute int64, posts map[string]string, read time.Time) *summedMinute {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept, s.read = map[int64]*summedMinute{}, map[int64]time.Time{}
	}
	s.read[minute] = read
	hash := hashOf(posts)
	if known := s.kept[minute]; known != nil && known.hash == hash {
		return known
	}
	m := sumMinute(posts)
	m.hash = hash
	s.kept[minute] = m
	if len(s.kept) > maxSummed {
		first := slices.Min(slices.Collect(maps.Keys(s.kept)))
		delete(s.kept, first)
		delete(s.read, first)
	}
	return m
}

func sumMinute(posts map[string]string) *summedMinute {
	m := &summedMinute{rules: map[string]history.Figures{}}
	for node, text := range posts {
		posted, ok := minutePosted(text)
		if !ok {
			continue
		}
		m.nodes = append(m.nodes, minuteNode{node, posted.Address, posted.Until})
		for rule, p := range posted.Rules {
			add(m.rules, rule, p.figures())
		}
		add(m.rules, history.NodePrefix+posted.Address, posted.Rules[""].figures())
	}
	return m
}

// minutePosted reads what jsonOf wrote of a postedMinute.
func minutePosted(text string) (m postedMinute, ok bool) {
	const rules = `,"r":`
	// The rules are the last member. Neither an address nor a number contains a quoted r.
	if i := strings.Index(text, rules); i >= 0 {
		if of, rest := cutRules(text[i+len(rules):]); of != nil && rest == "}" &&
			json.Unmarshal([]byte(text[:i]+"}"), &m) == nil {
			m.Rules = of
			return m, true
		}
	}
	m = postedMinute{}
	return m, json.Unmarshal([]byte(text), &m) == nil
}

// rulesPosted reads the figures of rules. Anything else counts as nothing.
func rulesPosted(text string) map[string]posted {
	of, rest := cutRules(text)
	if of == nil || rest != "" {
		of = nil
		_ = json.Unmarshal([]byte(text), &of)
	}
	return of
}

// cutRules reads the figures of rules at the beginning of a text, as jsonOf writes them, and returns what follows. If
// the text begins with anything else, even with other JSON, it returns nil and the text, for encoding/json to read.
func cutRules(text string) (of map[string]posted, rest string) {
	s, ok := strings.CutPrefix(text, "{")
	if !ok {
		return nil, text
	}
	of = make(map[string]posted, strings.Count(s, "["))
	if s, ok = strings.CutPrefix(s, "}"); ok {
		return of, s
	}
	for {
		var rule string
		var p posted
		if rule, p, s, ok = cutRule(s); !ok {
			return nil, text
		}
		of[rule] = p
		if s == "" || s[0] != ',' {
			break
		}
		s = s[1:]
	}
	if s, ok = strings.CutPrefix(s, "}"); !ok {
		return nil, text
	}
	return of, s
}

// cutRule reads a name and its figures.
func cutRule(s string) (rule string, p posted, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", p, s, false
	}
	name, s, ok := strings.Cut(s[1:], `":[`)
	if !ok || strings.ContainsAny(name, `\"`) {
		return "", p, s, false
	}
	numbers, s, ok := strings.Cut(s, "]")
	if !ok {
		return "", p, s, false
	}
	for i := range p {
		number, more, further := strings.Cut(numbers, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || further != (i < len(p)-1) {
			return "", p, s, false
		}
		p[i], numbers = n, more
	}
	return name, p, s, true
}
