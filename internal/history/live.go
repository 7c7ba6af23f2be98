package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Live is the present state of the fleet.
type Live struct {
	// At is the time of the read. Err is the error of later reads, nil if there was none. With an error all other
	// fields hold the last known state.
	At  time.Time
	Err error
	// Own: the figures count this node only, because the board is unavailable since At.
	Own bool
	// Seconds are the requests of the last minutes, a point a second without
	// gaps, oldest first. The last point is two seconds old, because nodes post
	// once a second.
	Seconds []Point
	// Rules are the rules with activity in the last ten minutes, the most denied first.
	Rules []RuleLive
	// Nodes are in order of address. A node that stopped posting stays for a minute.
	Nodes []NodeLive
	// Hot are the busiest keys of the fleet, busiest first.
	Hot []HotLive
}

// RuleLive is one rule in the last ten minutes.
type RuleLive struct {
	Name string
	// Minute are the last 60 seconds that count as complete.
	Minute Figures
	// Tens are 60 points of ten seconds, oldest first.
	Tens []Point
}

// NodeLive is one node.
type NodeLive struct {
	Status
	// Silent: it has not posted for more than five seconds.
	Silent bool
	// Unknown: its state is unavailable; the rest is what was last known.
	Unknown bool
}

const (
	liveSeconds = 180
	liveTens    = 60
	// lag is the age from which figures count as complete.
	lag = 2 * time.Second
	// silentAfter and goneAfter are times without a post.
	silentAfter = 5 * time.Second
	goneAfter   = time.Minute
	// readTimeout bounds a read, wholeTimeout one in several parts.
	readTimeout  = 800 * time.Millisecond
	wholeTimeout = 3 * time.Second
)

// LiveReader reads a Board. It is safe for concurrent use. Concurrent readers share one
// read per second.
type LiveReader struct {
	board Board
	own   *Memory // nil: no fallback
	now   func() time.Time
	// good is when the board was last read, in ns since the epoch; failed is the
	// last read if that failed.
	good   atomic.Int64
	failed atomic.Pointer[failure]
	// behind: the board lacks figures of this node.
	behind atomic.Bool

	mu   sync.Mutex
	live Live // without Rules while unsummed is not nil, which adds them up
	// unsummed: most pages need no sums, which take long with many rules.
	unsummed func() []RuleLive
	// asked is the time of the last read, failed or not: a board that hangs delays
	// one reader per second.
	asked time.Time
	tens  map[int64]map[string]Figures // periods that no longer change
	// summed are the periods that may still change.
	summed map[int64]summedTen
	// seconds are the tables of seconds that were read last, allTens the sums of ten seconds, minutes the sums of
	// minutes.
	seconds map[int64]map[string]string
	allTens map[int64]map[string]Figures
	minutes map[int64]*summedMinute

	sharedMu sync.Mutex
	shared   map[string]sharedTables

	denied, allowed sampleList

	keysMu sync.Mutex // held while denied keys are read
	// keys are the denied keys as they were last read, keysErr the error of that read.
	keys      []KeyDenials
	keysErr   error
	keysAsked time.Time
	// deniedTens are the tens of the shared board.
	deniedTens map[int64]deniedTen
}

// fresh is how long a read of the board is shared.
const fresh = time.Second

// NewLiveReader creates a reader of board.
func NewLiveReader(board Board, now func() time.Time) *LiveReader {
	return &LiveReader{board: board, now: now, tens: map[int64]map[string]Figures{}, summed: map[int64]summedTen{},
		shared: map[string]sharedTables{}, minutes: map[int64]*summedMinute{}, denied: sampleList{name: deniedList},
		allowed: sampleList{name: allowedList}, deniedTens: map[int64]deniedTen{}}
}

// Live returns the state of the fleet, at most a second old. It never fails: if the
// board is unavailable, Err says so, and the rest is this node's own state, or,
// without FallBackOn, what was last known.
func (r *LiveReader) Live(ctx context.Context) Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh(ctx)
	if r.unsummed != nil {
		r.live.Rules, r.unsummed = r.unsummed(), nil
	}
	return r.live
}

// withoutRules is Live without its Rules.
func (r *LiveReader) withoutRules(ctx context.Context) Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refresh(ctx)
}

// refresh reads the board if that was not done in the last second. The lock of live is held.
func (r *LiveReader) refresh(ctx context.Context) Live {
	now := r.now()
	if age := now.Sub(r.asked); age >= 0 && age < fresh {
		return r.live
	}
	r.asked = now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // it is for others too
	defer cancel()
	var live Live
	err := errBehind
	if r.own == nil || !r.behind.Load() {
		live, err = r.read(ctx, r.board, now, r.tens)
	}
	if err != nil {
		err = fmt.Errorf("read the figures of the fleet: %w", err)
		if r.own == nil {
			r.live.Err = err
			return r.live
		}
		r.failed.Store(&failure{at: now.UnixNano(), err: err})
		r.live = r.ownLive(context.WithoutCancel(ctx), now, err)
		return r.live
	}
	r.good.Store(now.UnixNano())
	r.live = live
	return live
}

// read reads a board. known are periods of ten seconds that no longer change.
func (r *LiveReader) read(
	ctx context.Context, board Board, now time.Time, known map[int64]map[string]Figures,
) (Live, error) {
	live := Live{At: now}
	last := now.Add(-lag).Unix()
	first := last - liveSeconds + 1
	tables := []string{nodesTable, hotTable}
	for minute := first / 60; minute <= now.Unix()/60; minute++ {
		tables = append(tables, secondsTable(minute))
	}
	plain := len(tables)
	lastTen := now.Unix() / 10
	var tens []int64
	for ten := lastTen - liveTens + 1; ten <= lastTen; ten++ {
		if _, there := known[ten]; !there {
			tens = append(tens, ten)
			tables = append(tables, tensTable(ten))
		}
	}
	read, err := board.Read(ctx, tables)
	if err != nil {
		return Live{}, err
	}
	live.Nodes, live.Hot = nodesOf(read[0], now), hotOf(read[1], now)
	live.Seconds = secondsOf(read[2:plain], first, last)
	seconds := map[int64]map[string]string{}
	for i, fields := range read[2:plain] {
		seconds[first/60+int64(i)] = fields
	}
	fresh := map[int64]map[string]Figures{}
	for i, ten := range tens {
		fresh[ten] = r.tenOf(ten, read[plain+i])
		if now.Sub(time.Unix((ten+1)*10, 0)) > backlog {
			known[ten] = fresh[ten] // no node posts to it any more
		}
	}
	for ten := range known {
		if ten <= lastTen-liveTens {
			delete(known, ten)
			continue
		}
		fresh[ten] = known[ten]
	}
	maps.DeleteFunc(r.summed, func(ten int64, _ summedTen) bool { return ten <= lastTen-liveTens || known[ten] != nil })
	r.unsummed = func() []RuleLive {
		minute := map[string]Figures{}
		for i, ten := range tens {
			if ten*10 < last-59 || ten*10+9 > last {
				addSeconds(minute, read[plain+i], ten*10, last-59, last)
				continue
			}
			for rule, f := range fresh[ten] { // as a whole, which is faster
				add(minute, rule, f)
			}
		}
		return rulesOf(fresh, lastTen, minute)
	}
	r.seconds, r.allTens = seconds, fresh
	return live, nil
}

func nodesOf(fields map[string]string, now time.Time) []NodeLive {
	var out []NodeLive
	for _, text := range fields {
		var n NodeLive
		if json.Unmarshal([]byte(text), &n.Status) != nil {
			continue
		}
		age := now.Sub(time.UnixMilli(n.At))
		if age > goneAfter {
			continue
		}
		n.Silent = age > silentAfter
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b NodeLive) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// secondsOf adds up the nodes' seconds; tables begin with the minute of first.
func secondsOf(tables []map[string]string, first, last int64) []Point {
	out := make([]Point, last-first+1)
	for i := range out {
		out[i].At = time.Unix(first+int64(i), 0)
	}
	for i, fields := range tables {
		start := (first/60 + int64(i)) * 60
		for field, text := range fields {
			sec, ok := afterColon(field)
			if at := start + sec; ok && at >= first && at <= last {
				out[at-first].Add(postedOf(text, ""))
			}
		}
	}
	return out
}

// tenOf adds up the posts of ten seconds, unless they have not changed since the last call. The lock of live is held.
func (r *LiveReader) tenOf(ten int64, posts map[string]string) map[string]Figures {
	hash := hashOf(posts)
	if s, there := r.summed[ten]; there && s.hash == hash {
		return s.rules
	}
	s := summedTen{hash, tensOf(posts)}
	r.summed[ten] = s
	return s.rules
}

func tensOf(fields map[string]string) map[string]Figures {
	sum := map[string]Figures{}
	for _, text := range fields {
		eachPosted(text, func(rule string, f Figures) { add(sum, rule, f) })
	}
	return sum
}

// addSeconds adds what a period of ten seconds, which begins at start, has of the seconds from first to last.
func addSeconds(sum map[string]Figures, fields map[string]string, start, first, last int64) {
	if start > last || start+10 <= first {
		return
	}
	for field, text := range fields {
		n, ok := afterColon(field)
		if sec := start + n; !ok || sec < first || sec > last {
			continue
		}
		eachPosted(text, func(rule string, f Figures) { add(sum, rule, f) })
	}
}

func rulesOf(tens map[int64]map[string]Figures, last int64, minute map[string]Figures) []RuleLive {
	byName := map[string]*RuleLive{}
	for ten, ruleCounts := range tens {
		i := int(ten - last + liveTens - 1)
		for name, c := range ruleCounts {
			rl := byName[name]
			if rl == nil {
				rl = &RuleLive{Name: name, Tens: make([]Point, liveTens), Minute: minute[name]}
				for j := range rl.Tens {
					rl.Tens[j].At = time.Unix((last-liveTens+1+int64(j))*10, 0)
				}
				byName[name] = rl
			}
			rl.Tens[i].Add(c)
		}
	}
	out := make([]RuleLive, 0, len(byName))
	for _, rl := range byName {
		out = append(out, *rl)
	}
	slices.SortFunc(out, func(a, b RuleLive) int {
		return cmp.Or(
			cmp.Compare(b.Minute.Denied, a.Minute.Denied), cmp.Compare(activity(b.Minute), activity(a.Minute)),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out
}

// tables reads tables through from: with an *OwnError they are the tables of this node. A read is shared for a second,
// so that many viewers of a rule cost no more than one. Callers must not change the result.
func (r *LiveReader) tables(ctx context.Context, names []string) (read []map[string]string, err error) {
	key := strings.Join(names, "\n")
	r.sharedMu.Lock()
	shared, ok := r.shared[key]
	r.sharedMu.Unlock()
	now := r.now()
	if age := now.Sub(shared.at); ok && age >= 0 && age < fresh {
		return shared.read, shared.err
	}
	err = r.from(ctx, func(ctx context.Context, b Board) (err error) {
		read, err = b.Read(ctx, names)
		return err
	})
	if ctx.Err() == nil {
		r.sharedMu.Lock()
		defer r.sharedMu.Unlock()
		maps.DeleteFunc(r.shared, func(_ string, t sharedTables) bool { return now.Sub(t.at) >= fresh })
		if len(r.shared) < maxShared {
			r.shared[key] = sharedTables{now, read, err}
		}
	}
	return read, err
}

// sharedTables is one read of tables.
type sharedTables struct {
	at   time.Time
	read []map[string]string
	err  error
}

// maxShared is the largest number of different reads that are shared.
const maxShared = 64

func afterColon(field string) (int64, bool) {
	i := strings.LastIndexByte(field, ':')
	n, err := strconv.ParseInt(field[i+1:], 10, 64)
	return n, err == nil && n >= 0
}
