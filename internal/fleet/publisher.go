package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"sluice/internal/history"
	"sluice/internal/tick"
)

// How long each kind of table is kept, and how much goes into it.
const (
	secondsTTL = 15 * time.Minute
	// minuteTTL is how long minutes wait for a rule database that is unavailable: a day, and time to write them.
	minuteTTL = 25 * time.Hour
	topsTTL   = 26 * time.Hour
	nodesTTL  = 24 * time.Hour
	// maxPosted is the largest number of rules whose keys, and of trials, that are in a post.
	maxPosted = 200
	// maxPostedSecond is the largest number of rules with figures of a second: the most active ones. Minutes have all.
	maxPostedSecond = 1000
	// postTimeout bounds one post.
	postTimeout = 800 * time.Millisecond
	// slowEvery is the interval of posts of minutes, keys and trials.
	slowEvery = 5 * time.Second
	// backlog is how long figures wait for an unavailable board, minuteBacklog how long those of minutes do, of which
	// there are at most maxWaitingRules of rules: the oldest minutes go.
	backlog         = 5 * time.Minute
	minuteBacklog   = time.Hour
	maxWaitingRules = 100_000
	// lateMinutes is the largest number of earlier minutes in a post.
	lateMinutes = 10
	// maxWaiting is the largest number of samples of a list that wait for an unavailable board.
	maxWaiting = 500
)

// PublisherOptions configure a Publisher. Own, Behind, Hot and Log are optional.
type PublisherOptions struct {
	Recorder *Recorder
	Board    Board
	// Own stores the figures of this node for times at which Board is unavailable;
	// nil if Board is in this process.
	Own *Memory
	// Behind, if not nil, is called after each post with whether Board lacks figures of this node.
	Behind func(bool)
	// Status describes this node. Its ID must be unique among the nodes and contain
	// neither space nor colon. At is filled in.
	Status func() Status
	// Hot returns up to that many of this node's busiest keys, busiest first; nil
	// without hot-key detection.
	Hot func(most int) []HotKey
	Now func() time.Time
	Log *slog.Logger
}

// Publisher posts what a Recorder counted. Run it in one goroutine.
type Publisher struct {
	opt  PublisherOptions
	node string
	away bool
	cold bool // the last post listed no busy keys

	seconds  map[int64]history.Figures            // of requests
	rules    map[int64]map[string]history.Figures // of rules, by second
	minutes  map[int64]map[string]history.Figures // of rules, and of requests under ""
	dirty    map[slot]struct{}
	latest   int64   // the last second with figures
	lastTops []Entry // of the last hour, not posted yet
	trials   map[Trial]*trialSum
	waiting  lines // for the board
	fresh    lines // of the last second
	hour     int64
	slowAt   time.Time
	serial   int64
}

// slot is a period whose figures are to be posted.
type slot struct {
	kind byte // s, t, m or q
	at   int64
}

// NewPublisher creates a Publisher.
func NewPublisher(opt PublisherOptions) *Publisher {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Publisher{
		opt: opt, node: opt.Status().ID, hour: opt.Now().Unix() / 3600,
		seconds: map[int64]history.Figures{}, rules: map[int64]map[string]history.Figures{},
		minutes: map[int64]map[string]history.Figures{},
		dirty:   map[slot]struct{}{}, trials: map[Trial]*trialSum{}, cold: true,
		waiting: lines{}, fresh: lines{},
	}
}

// Run posts every second until ctx ends, then once more, and removes the node from
// the list.
func (p *Publisher) Run(ctx context.Context) {
	for range tick.Every(ctx, time.Second) {
		p.Post(ctx)
	}
	p.leave(context.WithoutCancel(ctx))
}

func (p *Publisher) leave(ctx context.Context) {
	p.slowAt = time.Time{} // post everything now
	p.Post(ctx)
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	_ = p.opt.Board.Drop(ctx, "nodes", []string{p.node}) // otherwise its age shows it
	_ = p.opt.Board.Drop(ctx, hotTable, []string{p.node})
}

// Post collects and posts once. If the board is unavailable, the figures are in the
// next post.
func (p *Publisher) Post(ctx context.Context) {
	now := p.opt.Now()
	p.take(now)
	err := p.post(ctx, now)
	if err == nil && p.away { // the board may have come back empty
		p.slowAt = time.Time{}
		err = p.post(ctx, now)
	}
	if p.opt.Behind != nil {
		p.opt.Behind(err != nil)
	}
	if (err != nil) != p.away {
		p.away = err != nil
		if p.away {
			p.opt.Log.Warn("figures for the console cannot be shared; retrying", "error", err)
		} else {
			p.opt.Log.Info("figures for the console are shared again")
		}
	}
	p.trim(now)
}

// post posts what waits; minutes and keys only if it is their time.
func (p *Publisher) post(ctx context.Context, now time.Time) error {
	out := p.entries(now)
	p.postOwn(ctx, out.entries, p.fresh)
	for list := range p.fresh {
		p.fresh[list] = p.fresh[list][:0]
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	err := p.opt.Board.Post(ctx, out.entries)
	if err == nil {
		for _, s := range out.slots {
			delete(p.dirty, s)
		}
		for _, t := range out.trials {
			t.dirty = false
		}
		p.lastTops = nil
		err = p.postSamples(ctx)
	}
	if err != nil {
		p.opt.Recorder.tops.again(out.tops)
	}
	return err
}

// take moves the counts of the recorder to their periods.
func (p *Publisher) take(now time.Time) {
	g := p.opt.Recorder.gather()
	p.opt.Recorder.tops.pace()
	sec := now.Unix()
	p.latest = max(p.latest, sec)
	add(p.seconds, sec, g.total)
	p.dirty[slot{'s', sec}] = struct{}{}
	for _, t := range p.ruleTables() {
		at := sec / t.width
		if t.table[at] == nil {
			if len(g.rules) == 0 && t.kind != 'm' { // a minute without requests is posted too, so that it is known
				continue
			}
			t.table[at] = map[string]history.Figures{}
		}
		for rule, f := range g.rules {
			add(t.table[at], rule, f)
		}
		if t.kind == 'm' {
			add(t.table[at], "", g.total)
		}
		p.dirty[slot{t.kind, at}] = struct{}{}
	}
	p.takeTrials(now)
	p.takeSamples(g.denied, g.allowed)
}

// ruleTable are the figures of rules by periods of width seconds.
type ruleTable struct {
	kind  byte
	table map[int64]map[string]history.Figures
	width int64
}

func (p *Publisher) ruleTables() [2]ruleTable {
	return [...]ruleTable{{'t', p.rules, 1}, {'m', p.minutes, 60}}
}

func add[K comparable](m map[K]history.Figures, k K, c history.Figures) {
	sum := m[k]
	sum.Add(c)
	m[k] = sum
}

// outgoing is one post: its entries, and what they contain.
type outgoing struct {
	entries []Entry
	slots   []slot
	trials  []*trialSum
	tops    map[string]history.Tops
}

// entries returns what is to be posted.
func (p *Publisher) entries(now time.Time) (o outgoing) {
	st := p.opt.Status()
	st.At = now.UnixMilli()
	o.entries = []Entry{{Table: "nodes", Field: p.node, Value: jsonOf(st), TTL: nodesTTL}}
	o.entries = p.appendHot(o.entries, now, st.Address)
	slow := now.Sub(p.slowAt) >= slowEvery || now.Unix()/60 != p.slowAt.Unix()/60
	late := 0
	for s := range p.dirty {
		if s.kind == 'm' {
			if s.at < now.Unix()/60-1 {
				late++
			}
			if !slow || late > lateMinutes && s.at < now.Unix()/60-1 {
				continue
			}
		}
		o.slots = append(o.slots, s)
		o.entries = p.appendSlot(o.entries, s, st.Address)
	}
	if slow {
		p.slowAt = now
		p.appendTops(&o, now)
		o.entries, o.trials = p.appendTrials(o.entries)
	}
	return o
}

func (p *Publisher) appendSlot(out []Entry, s slot, address string) []Entry {
	switch s.kind {
	case 's':
		return append(out, Entry{Table: secondsTable(s.at / 60), Field: p.field(s.at % 60), Value: pack(p.seconds[s.at]),
			TTL: secondsTTL})
	case 't':
		packed := map[string]posted{}
		for _, rule := range heaviest(p.rules[s.at], maxPostedSecond) {
			packed[rule] = post(p.rules[s.at][rule])
		}
		return append(out, Entry{Table: tensTable(s.at / 10), Field: p.field(s.at % 10), Value: jsonOf(packed),
			TTL: secondsTTL})
	case 'm':
		m := postedMinute{Address: address, Until: min(p.latest+1, (s.at+1)*60), Rules: map[string]posted{}}
		for rule, f := range p.minutes[s.at] {
			m.Rules[rule] = post(f)
		}
		out = append(out, Entry{Table: minuteTable(s.at), Field: p.node, Value: jsonOf(m), TTL: minuteTTL})
	}
	return out
}

func (p *Publisher) field(n int64) string { return fieldOf(p.node, n) }

func fieldOf(node string, n int64) string { return node + ":" + strconv.FormatInt(n, 10) }

// appendTops writes the most active keys, routes and tenants of rules with new counts. When an hour has ended, it
// writes those of all such rules, and keeps them until a post succeeds.
func (p *Publisher) appendTops(o *outgoing, now time.Time) {
	over := now.Unix()/3600 != p.hour
	o.tops = p.opt.Recorder.tops.take(maxPosted, over)
	var tops []Entry
	for rule, t := range o.tops {
		tops = append(tops, Entry{Table: topsTable(p.hour, rule), Field: p.node, Value: jsonOf(t), TTL: topsTTL})
	}
	if over {
		p.lastTops, tops = tops, nil
		p.hour = now.Unix() / 3600
	}
	o.entries = append(append(o.entries, p.lastTops...), tops...)
}

// heaviest returns the names of the most active rules, at most most.
func heaviest(m map[string]history.Figures, most int) []string {
	names := slices.Collect(maps.Keys(m))
	if len(names) <= most {
		return names
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(activity(m[b]), activity(m[a])), cmp.Compare(a, b))
	})
	return names[:most]
}

// activity orders rules.
func activity(f history.Figures) int64 { return f.Allowed + 8*(f.Denied+f.WouldDeny+f.Degraded) }

// trim drops periods that have ended and are posted, or are too old.
func (p *Publisher) trim(now time.Time) {
	for _, t := range p.ruleTables() {
		for at := range t.table {
			_, waits := p.dirty[slot{t.kind, at}]
			if p.done(now, at, t.width, waits) {
				delete(t.table, at)
				delete(p.dirty, slot{t.kind, at})
			}
		}
	}
	waiting := 0
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(p.minutes))) {
		if waiting += len(p.minutes[at]); waiting > maxWaitingRules && at < now.Unix()/60 {
			delete(p.minutes, at)
			delete(p.dirty, slot{'m', at})
		}
	}
	for at := range p.seconds {
		_, waits := p.dirty[slot{'s', at}]
		if p.done(now, at, 1, waits) {
			delete(p.seconds, at)
			delete(p.dirty, slot{'s', at})
		}
	}
}

func (p *Publisher) done(now time.Time, at, width int64, waits bool) bool {
	over, most := now.Sub(time.Unix((at+1)*width, 0)), backlog
	if width == 60 {
		most = minuteBacklog
	}
	return over > most || over >= time.Second && !waits
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// postedMinute is what a node decided in a minute, by rule, and under "" all requests. It has what was counted in the
// seconds before Until (s since the epoch).
type postedMinute struct {
	Address string            `json:"a"`
	Until   int64             `json:"u"`
	Rules   map[string]posted `json:"r"`
}

// The names of tables. Rule names have no colon.
func secondsTable(minute int64) string { return fmt.Sprintf("s:%d", minute) }
func tensTable(ten int64) string       { return fmt.Sprintf("t:%d", ten) }
func minuteTable(minute int64) string  { return fmt.Sprintf("M:%d", minute) }
func topsTable(hour int64, rule string) string {
	return fmt.Sprintf("y:%d:%s", hour, rule)
}
