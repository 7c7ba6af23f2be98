package history

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/internal/wire"
)

const (
	// maxCountedKeys is the largest number of denied keys that a node counts in a second, over all rules. The ones
	// after them in the second are not counted.
	maxCountedKeys = 500
	// maxPostedKeys is the largest number of denied keys of a second that a node posts: the most denied ones.
	maxPostedKeys = 10
	// keySeconds is the length of KeyDenials.Line.
	keySeconds = 60
	// quietAfter is how long a key is not denied until its next denial begins a new KeyDenials.Since.
	quietAfter = time.Minute
)

// KeyDenials are the denials of one key by one rule, on all nodes. The counts are at most what was denied, give or take
// Error: a node posts only the keys that it denied most in a second.
type KeyDenials struct {
	// Rule is the name of the rule, Key the display name of the bucket.
	Rule, Key string
	// Since is the first second of the present run of denials, without a minute in which there was none. With Longer,
	// the run began before everything that is known.
	Since  time.Time
	Longer bool
	// Last is the second of the last denial.
	Last time.Time
	// Minute are the denials in the last 60 seconds that count as complete. Line has them by second, oldest first.
	Minute int64
	Line   []int64
	// Error is by how much Minute may be wrong, because a node counts a sample while it decides a lot: twice the
	// standard deviation.
	Error int64
}

// PerSecond is the mean of the last ten seconds.
func (k *KeyDenials) PerSecond() float64 {
	const last = 10
	var sum int64
	for _, n := range k.Line[max(0, len(k.Line)-last):] {
		sum += n
	}
	return float64(sum) / last
}

// ruleKey names a key of a rule.
type ruleKey struct{ rule, key string }

// denied counts the denials of a key in a second.
type denied struct{ count, variance int64 }

// deniedCounts are the denied keys of this second. The zero value is ready to use.
type deniedCounts struct {
	mu   sync.Mutex
	keys map[ruleKey]denied
}

func (d *deniedCounts) add(rule, key string, weight int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = map[ruleKey]denied{}
	}
	k := ruleKey{rule, cutKey(key)}
	of, known := d.keys[k]
	if !known && len(d.keys) >= maxCountedKeys {
		return
	}
	of.count += weight
	of.variance += weight * (weight - 1)
	d.keys[k] = of
}

// take returns the most denied keys and resets the counts.
func (d *deniedCounts) take() map[ruleKey]denied {
	d.mu.Lock()
	keys := d.keys
	d.keys = nil
	d.mu.Unlock()
	if len(keys) <= maxPostedKeys {
		return keys
	}
	all := slices.SortedFunc(maps.Keys(keys), func(a, b ruleKey) int {
		return cmp.Or(cmp.Compare(keys[b].count, keys[a].count), cmp.Compare(a.rule, b.rule), cmp.Compare(a.key, b.key))
	})
	for _, k := range all[maxPostedKeys:] {
		delete(keys, k)
	}
	return keys
}

// deniedTable is the table of the denied keys of ten seconds, with a field for each node and second.
func deniedTable(ten int64) string { return fmt.Sprintf("k:%d", ten) }

// packKeys writes the denied keys of a second.
func packKeys(keys map[ruleKey]denied) string {
	out := []byte{postedVersion}
	for k, of := range keys {
		out = wire.AppendText(wire.AppendText(out, k.rule), k.key)
		out = binary.AppendUvarint(out, uint64(max(0, of.count)))
		out = binary.AppendUvarint(out, uint64(max(0, of.variance)))
	}
	return string(out)
}

// eachKey visits the denied keys that a node posted for a second. It skips unreadable entries.
func eachKey(text string, see func(k ruleKey, of denied)) {
	in := wire.Read([]byte(text))
	if in.Byte() != postedVersion {
		return
	}
	for in.Len() > 0 {
		k := ruleKey{in.Text(maxRowName), in.Text(maxKeyBytes)}
		of := denied{in.Number(math.MaxInt64), in.Number(math.MaxInt64)}
		if !in.Failed() {
			see(k, of)
		}
	}
}

// deniedSeconds are the denials of a key by second since 1970.
type deniedSeconds map[int64]denied

// deniedTen is the posts of all nodes for ten seconds. It is immutable.
type deniedTen struct {
	hash uint64
	keys map[ruleKey]deniedSeconds
}

// DeniedKeys returns the keys that were denied in the last minute, the most denied first, at most a second old. Callers
// must not change them. With an *OwnError they are the keys of this node only.
func (r *LiveReader) DeniedKeys(ctx context.Context) ([]KeyDenials, error) {
	r.keysMu.Lock()
	defer r.keysMu.Unlock()
	now := r.now()
	if age := now.Sub(r.keysAsked); age >= 0 && age < fresh {
		return r.keys, r.keysErr
	}
	r.keysAsked = now
	last := now.Add(-lag).Unix()
	tens := map[int64]deniedTen{}
	err := r.from(context.WithoutCancel(ctx), func(ctx context.Context, b Board) error { // it is for others too
		known := r.deniedTens
		if r.own != nil && b == Board(r.own) {
			known = nil
		}
		read, err := readDenied(ctx, b, known, now)
		if err == nil {
			tens = read
			if known != nil {
				r.deniedTens = read
			}
		}
		return err
	})
	r.keys, r.keysErr = deniedOf(tens, last), err
	return r.keys, err
}

// readDenied reads the denied keys of SecondsKept. Those of known that no node posts to any more are not read again.
func readDenied(ctx context.Context, b Board, known map[int64]deniedTen, now time.Time) (map[int64]deniedTen, error) {
	out := map[int64]deniedTen{}
	var tables []string
	var numbers []int64
	for ten := now.Add(-SecondsKept).Unix()/10 + 1; ten <= now.Unix()/10; ten++ {
		if was, there := known[ten]; there && now.Unix()-ten*10 > int64(settled/time.Second) {
			out[ten] = was
			continue
		}
		tables, numbers = append(tables, deniedTable(ten)), append(numbers, ten)
	}
	read, err := b.Read(ctx, tables)
	if err != nil {
		return nil, err
	}
	for i, ten := range numbers {
		hash := hashOf(read[i])
		if was, there := known[ten]; there && was.hash == hash {
			out[ten] = was
			continue
		}
		t := deniedTen{hash, map[ruleKey]deniedSeconds{}}
		for field, text := range read[i] {
			second, ok := afterColon(field)
			if !ok {
				continue
			}
			eachKey(text, func(k ruleKey, of denied) {
				if t.keys[k] == nil {
					t.keys[k] = deniedSeconds{}
				}
				sum := t.keys[k][ten*10+second]
				t.keys[k][ten*10+second] = denied{sum.count + of.count, sum.variance + of.variance}
			})
		}
		out[ten] = t
	}
	return out, nil
}

// deniedOf adds up tens. last is the last second that counts as complete.
func deniedOf(tens map[int64]deniedTen, last int64) []KeyDenials {
	first := last - keySeconds + 1
	sums := map[ruleKey]deniedSeconds{}
	for ten := range tens {
		if ten*10+9 < first {
			continue
		}
		for k := range tens[ten].keys {
			sums[k] = nil
		}
	}
	var out []KeyDenials
	for k := range sums {
		one := KeyDenials{Rule: k.rule, Key: k.key, Line: make([]int64, keySeconds)}
		var variance, oldest, newest int64
		ten, seconds := int64(-1), deniedSeconds(nil)
		for second := last; second > last-int64(SecondsKept/time.Second); second-- {
			if second/10 != ten { // the names of keys are long, and looked for once in ten seconds
				ten = second / 10
				seconds = tens[ten].keys[k]
			}
			of, known := seconds[second]
			if !known {
				if newest != 0 && oldest-second > int64(quietAfter/time.Second) {
					break
				}
				continue
			}
			if newest == 0 {
				newest = second
			}
			oldest = second
			if second >= first {
				one.Minute += of.count
				variance += of.variance
				one.Line[second-first] = of.count
			}
		}
		if one.Minute == 0 {
			continue
		}
		one.Since, one.Last = time.Unix(oldest, 0).UTC(), time.Unix(newest, 0).UTC()
		one.Longer = last-oldest >= int64((SecondsKept-quietAfter)/time.Second)
		one.Error = int64(math.Ceil(2 * math.Sqrt(float64(variance))))
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b KeyDenials) int {
		return cmp.Or(cmp.Compare(b.Minute, a.Minute), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return out
}
