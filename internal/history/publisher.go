package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// secondsTTL is how long seconds are kept on the board, nodesTTL the states of nodes.
	secondsTTL = SecondsKept + 5*time.Minute
	nodesTTL   = 24 * time.Hour
	// maxPostedSecond is the largest number of rules with figures by second: the most active ones. Minutes contain all
	// rules.
	maxPostedSecond = 1000
	// postTimeout bounds one post.
	postTimeout = 800 * time.Millisecond
	// backlog is how long figures wait for an unavailable board, which may be empty when it is reachable again.
	backlog = 5 * time.Minute
	// maxUnposted is the largest number of samples of a list that are queued for an unavailable board.
	maxUnposted = 500
)

// unshared: pages of other nodes lack the decisions of this node in the last seconds.
var unshared = trouble.Declare(trouble.Condition{Code: "figures_unshared",
	Advice: "see to Redis; decisions are not affected",
	Starts: "figures for the console cannot be shared; retrying", Ends: "figures for the console are shared again"})

// PublisherOptions configure a Publisher. Own, Fallback, Behind, Hot and Trouble are optional.
type PublisherOptions struct {
	Recorder *Recorder
	Board    Board
	// Own gets what the recorder counted.
	Own *Own
	// Fallback stores the figures of this node for times at which Board is unavailable; nil if Board is in this process.
	Fallback *Memory
	// Behind, if not nil, is called after each post with whether Board lacks figures of this node.
	Behind func(bool)
	// Status describes this node. Its ID must be unique among the nodes and contain neither space nor colon. At is filled
	// in.
	Status func() Status
	// Hot returns up to that many of this node's busiest keys, busiest first; nil without hot-key detection.
	Hot func(most int) []HotKey
	Now func() time.Time
	// Trouble notes whether Board is there.
	Trouble *trouble.Registry
}

// Publisher posts what a Recorder counted. Run it in one goroutine.
type Publisher struct {
	opt  PublisherOptions
	node string
	away bool
	cold bool // the last post listed no busy keys

	seconds map[int64]*postedSecond
	trials  map[string]bool // names of those whose row is to be posted
	waiting postedSamples   // for the board
	fresh   postedSamples   // of the last second
	serial  int64
}

// postedSecond is what was decided in a second.
type postedSecond struct {
	total Figures
	rules map[string]Figures
	keys  map[ruleKey]denied
	dirty bool // it is to be posted
}

// NewPublisher creates a Publisher.
func NewPublisher(opt PublisherOptions) *Publisher {
	if opt.Own == nil {
		opt.Own = NewOwn(1, opt.Recorder)
	}
	return &Publisher{opt: opt, node: opt.Status().ID, cold: true, seconds: map[int64]*postedSecond{},
		trials: map[string]bool{}, waiting: postedSamples{}, fresh: postedSamples{}}
}

// Run posts every second until ctx ends, then once more, and removes the node from the list.
func (p *Publisher) Run(ctx context.Context) {
	for range tick.Every(ctx, time.Second) {
		p.Post(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	p.Post(ctx)
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	for _, table := range []string{nodesTable, hotTable} {
		_ = p.opt.Board.Drop(ctx, table, []string{p.node}) // otherwise its age shows it
	}
}

// Post collects and posts once. If the board is unavailable, the figures are in the next post.
func (p *Publisher) Post(ctx context.Context) {
	now := p.opt.Now()
	p.take(now)
	if p.away { // the board may come back empty
		for second, s := range p.seconds {
			s.dirty = s.dirty || now.Sub(time.Unix(second, 0)) < settled+time.Minute
		}
	}
	err := p.post(ctx, now)
	if p.away = err != nil; p.opt.Behind != nil {
		p.opt.Behind(p.away)
	}
	p.opt.Trouble.Note(unshared, "", err)
	maps.DeleteFunc(p.seconds, func(second int64, s *postedSecond) bool {
		age := now.Sub(time.Unix(second+1, 0))
		return age > backlog || age > settled+time.Minute && !s.dirty
	})
}

// take moves the counts of the recorder to their second.
func (p *Publisher) take(now time.Time) {
	g := p.opt.Recorder.gather()
	p.opt.Recorder.tops.pace()
	second := now.Unix()
	p.opt.Own.add(second, p.opt.Status().Address, &g)
	for t := range g.trials {
		if len(p.trials) < maxTrials {
			p.trials[t.name()] = true
		}
	}
	s := p.seconds[second]
	if s == nil {
		s = &postedSecond{rules: map[string]Figures{}, keys: map[ruleKey]denied{}}
		p.seconds[second] = s
	}
	s.dirty = true
	s.total.Add(g.total)
	for rule, f := range g.rules {
		add(s.rules, rule, f)
	}
	for k, of := range g.keys { // twice as many at most, if two posts fall into a second
		was := s.keys[k]
		s.keys[k] = denied{was.count + of.count, was.variance + of.variance}
	}
	if len(s.rules) > maxPostedSecond {
		most := map[string]Figures{}
		for _, rule := range heaviest(s.rules, maxPostedSecond) {
			most[rule] = s.rules[rule]
		}
		s.rules = most
	}
	p.takeSamples(g.denied, g.allowed)
}

// post posts what waits.
func (p *Publisher) post(ctx context.Context, now time.Time) error {
	st := p.opt.Status()
	st.At = now.UnixMilli()
	entries := p.appendHot([]Entry{{Table: nodesTable, Field: p.node, Value: jsonOf(st), TTL: nodesTTL}}, now, st.Address)
	var posted []*postedSecond
	for second, s := range p.seconds {
		if s.dirty {
			posted = append(posted, s)
			entries = p.appendSecond(entries, second, s)
		}
	}
	trials := slices.Collect(maps.Keys(p.trials))
	trials = trials[:min(len(trials), maxPostedTrials)]
	entries = appendTrials(entries, p.opt.Own.trialRows(trials))
	p.postFallback(ctx, entries, p.fresh)
	for list := range p.fresh {
		p.fresh[list] = p.fresh[list][:0]
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if err := p.opt.Board.Post(ctx, entries); err != nil {
		return err
	}
	for _, s := range posted {
		s.dirty = false
	}
	for _, name := range trials {
		delete(p.trials, name)
	}
	return p.postSamples(ctx)
}

func (p *Publisher) appendSecond(out []Entry, second int64, s *postedSecond) []Entry {
	total := appendPosted([]byte{postedVersion}, "", &s.total)
	out = append(out, Entry{Table: secondsTable(second / 60), Field: fieldOf(p.node, second%60), Value: string(total),
		TTL: secondsTTL})
	if len(s.keys) > 0 {
		out = append(out, Entry{Table: deniedTable(second / 10), Field: fieldOf(p.node, second%10), Value: packKeys(s.keys),
			TTL: secondsTTL})
	}
	if len(s.rules) == 0 {
		return out
	}
	rules := []byte{postedVersion}
	for rule, f := range s.rules {
		rules = appendPosted(rules, rule, &f)
	}
	return append(out, Entry{Table: tensTable(second / 10), Field: fieldOf(p.node, second%10), Value: string(rules),
		TTL: secondsTTL})
}

func add[K comparable](m map[K]Figures, k K, c Figures) {
	sum := m[k]
	sum.Add(c)
	m[k] = sum
}

// heaviest returns the names of the most active rules, at most most.
func heaviest(m map[string]Figures, most int) []string {
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
func activity(f Figures) int64 { return f.Allowed + 8*(f.Denied+f.WouldDeny+f.Degraded) }

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}

const nodesTable = "nodes"

// The names of tables and fields.
func secondsTable(minute int64) string         { return fmt.Sprintf("s:%d", minute) }
func tensTable(ten int64) string               { return fmt.Sprintf("t:%d", ten) }
func fieldOf(node string, number int64) string { return node + ":" + strconv.FormatInt(number, 10) }
