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

	"sluice/internal/tick"
)

// How long each kind of table is kept, and how much goes into it.
const (
	secondsTTL  = 15 * time.Minute
	tensTTL     = 15 * time.Minute
	minutesTTL  = 5 * time.Hour
	quartersTTL = 8 * 24 * time.Hour
	keysTTL     = 3 * time.Hour
	nodesTTL    = 24 * time.Hour
	// maxPosted is the largest number of rules with figures of their own in a post:
	// the most active ones.
	maxPosted = 200
	// postTimeout bounds one post.
	postTimeout = 800 * time.Millisecond
	// slowEvery is the interval of posts of minutes, quarters and most denied keys.
	slowEvery = 5 * time.Second
	// backlog is how long figures wait for an unavailable board.
	backlog = 5 * time.Minute
	// keptDenials is the number of recent denials on the board.
	keptDenials = 2000
	// maxWaiting is the largest number of denials that wait for an unavailable board.
	maxWaiting = 500
)

// PublisherOptions configure a Publisher. Own, Hot and Log are optional.
type PublisherOptions struct {
	Recorder *Recorder
	Board    Board
	// Own stores the figures of this node for times at which Board is unavailable;
	// nil if Board is in this process.
	Own *Memory
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

	seconds  map[int64]Counts
	tens     map[int64]map[string]Counts
	minutes  map[int64]map[string]Counts
	quarters map[int64]map[string]Counts
	dirty    map[slot]struct{}
	trials   map[Trial]*trialSum
	denials  []string // wait for the board
	fresh    []string // those of the last second
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
		seconds: map[int64]Counts{}, tens: map[int64]map[string]Counts{},
		minutes: map[int64]map[string]Counts{}, quarters: map[int64]map[string]Counts{},
		dirty: map[slot]struct{}{}, trials: map[Trial]*trialSum{}, cold: true,
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
	posted, trials, entries := p.entries(now)
	p.postOwn(ctx, entries, p.fresh)
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	err := p.opt.Board.Post(ctx, entries)
	if err == nil {
		for _, s := range posted {
			delete(p.dirty, s)
		}
		for _, t := range trials {
			t.dirty = false
		}
		err = p.opt.Board.Append(ctx, p.denials, keptDenials)
	}
	if err == nil {
		p.denials = p.denials[:0]
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

// take moves the counts of the recorder to their periods.
func (p *Publisher) take(now time.Time) {
	g := p.opt.Recorder.gather()
	p.fresh = p.fresh[:0]
	sec := now.Unix()
	add(p.seconds, sec, g.total)
	p.dirty[slot{'s', sec}] = struct{}{}
	if len(g.rules) > 0 {
		for _, t := range []struct {
			kind  byte
			table map[int64]map[string]Counts
			width int64
		}{{'t', p.tens, 10}, {'m', p.minutes, 60}, {'q', p.quarters, 900}} {
			at := sec / t.width
			if t.table[at] == nil {
				t.table[at] = map[string]Counts{}
			}
			for rule, c := range g.rules {
				add(t.table[at], rule, c)
			}
			p.dirty[slot{t.kind, at}] = struct{}{}
		}
	}
	p.takeTrials(now)
	for i := range g.samples {
		d := &g.samples[i]
		p.serial++
		d.Node, d.ID = p.node, p.node+"-"+strconv.FormatInt(p.serial, 36)
		text, err := json.Marshal(d)
		if err != nil {
			continue
		}
		p.fresh = append(p.fresh, string(text))
		if len(p.denials) < maxWaiting {
			p.denials = append(p.denials, string(text))
		}
	}
}

func add[K comparable](m map[K]Counts, k K, c Counts) {
	sum := m[k]
	sum.Add(c)
	m[k] = sum
}

// entries returns what is to be posted, and its periods.
func (p *Publisher) entries(now time.Time) (posted []slot, trials []*trialSum, out []Entry) {
	st := p.opt.Status()
	st.At = now.UnixMilli()
	out = []Entry{{Table: "nodes", Field: p.node, Value: jsonOf(st), TTL: nodesTTL}}
	out = p.appendHot(out, now, st.Address)
	slow := now.Sub(p.slowAt) >= slowEvery || now.Unix()/3600 != p.hour
	for s := range p.dirty {
		if (s.kind == 'm' || s.kind == 'q') && !slow {
			continue
		}
		posted = append(posted, s)
		out = p.appendSlot(out, s)
	}
	if slow {
		p.slowAt = now
		out = p.appendKeys(out, now)
		out, trials = p.appendTrials(out)
	}
	return posted, trials, out
}

func (p *Publisher) appendSlot(out []Entry, s slot) []Entry {
	switch s.kind {
	case 's':
		return append(out, Entry{
			Table: secondsTable(s.at / 60), Field: p.field(s.at % 60), Value: p.seconds[s.at].pack(), TTL: secondsTTL,
		})
	case 't':
		packed := map[string][5]int64{}
		for _, rule := range heaviest(p.tens[s.at]) {
			packed[rule] = p.tens[s.at][rule].figures()
		}
		return append(out, Entry{Table: tensTable(s.at), Field: p.node, Value: jsonOf(packed), TTL: tensTTL})
	case 'm':
		for _, rule := range heaviest(p.minutes[s.at]) {
			out = append(out, Entry{
				Table: minutesTable(s.at/60, rule), Field: p.field(s.at % 60), Value: p.minutes[s.at][rule].pack(), TTL: minutesTTL,
			})
		}
	default:
		for _, rule := range heaviest(p.quarters[s.at]) {
			out = append(out, Entry{
				Table: quartersTable(s.at/96, rule), Field: p.field(s.at % 96),
				Value: p.quarters[s.at][rule].pack(), TTL: quartersTTL,
			})
		}
	}
	return out
}

func (p *Publisher) field(n int64) string { return p.node + ":" + strconv.FormatInt(n, 10) }

// appendKeys writes the most denied keys, for the last time when their hour has
// ended.
func (p *Publisher) appendKeys(out []Entry, now time.Time) []Entry {
	hour := now.Unix() / 3600
	for rule, keys := range p.opt.Recorder.topKeys(hour != p.hour) {
		out = append(out, Entry{Table: keysTable(p.hour, rule), Field: p.node, Value: jsonOf(keys), TTL: keysTTL})
	}
	p.hour = hour
	return out
}

// heaviest returns the names of the most active rules.
func heaviest(m map[string]Counts) []string {
	names := slices.Collect(maps.Keys(m))
	if len(names) <= maxPosted {
		return names
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b].weight(), m[a].weight()), cmp.Compare(a, b))
	})
	return names[:maxPosted]
}

// trim drops periods that have ended and are posted, or are too old.
func (p *Publisher) trim(now time.Time) {
	for _, t := range []struct {
		kind  byte
		table map[int64]map[string]Counts
		width int64
	}{{'t', p.tens, 10}, {'m', p.minutes, 60}, {'q', p.quarters, 900}} {
		for at := range t.table {
			_, waits := p.dirty[slot{t.kind, at}]
			if p.done(now, at, t.width, waits) {
				delete(t.table, at)
				delete(p.dirty, slot{t.kind, at})
			}
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
	over := now.Sub(time.Unix((at+1)*width, 0))
	return over > backlog || over >= time.Second && !waits
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// The names of tables. Rule names have no colon.
func secondsTable(minute int64) string { return fmt.Sprintf("s:%d", minute) }
func tensTable(ten int64) string       { return fmt.Sprintf("t:%d", ten) }
func minutesTable(hour int64, rule string) string {
	return fmt.Sprintf("m:%d:%s", hour, rule)
}
func quartersTable(day int64, rule string) string { return fmt.Sprintf("q:%d:%s", day, rule) }
func keysTable(hour int64, rule string) string    { return fmt.Sprintf("k:%d:%s", hour, rule) }
