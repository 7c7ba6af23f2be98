package share

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sluice/internal/region"
	"sluice/limiter"
)

const (
	// Version is the version of messages. Messages of another version are refused.
	Version = 1
	// mostAhead is how far epochs and numbers may be ahead of the receiver's clock, in ms: a hundred years. Epochs are
	// times, and numbers never come near one. Without a bound, one message with the greatest of them would leave none for
	// later ones.
	mostAhead = 100 * 365 * 24 * 3_600_000
)

// Message is sent by a region to another one every interval: the demand on the sender, the spans that it holds of the
// receiver's segment, and the spans that it wants.
type Message struct {
	Version int `json:"version"`
	// From, To and Prefix are as in region.Head, and Set is the version of the sender's rules.
	From   string `json:"from"`
	To     string `json:"to"`
	Prefix string `json:"prefix"`
	Set    int64  `json:"set"`
	// Regions are the regions that the sender knows. They determine the segments.
	Regions []string `json:"regions"`
	// Epoch is the epoch of the sender, and Yours the epoch of the receiver as the sender knows it.
	Epoch int64 `json:"epoch"`
	Yours int64 `json:"yours"`
	// Lost: the sender does not know what it has lent to the receiver.
	Lost   bool            `json:"lost,omitempty"`
	Demand map[int64]int64 `json:"demand,omitempty"`
	Asks   []Ask           `json:"asks,omitempty"`
}

// Ask is about one rule: the number of the last grant of the receiver that the sender has, all that it holds under
// it, and how many parts it wants.
type Ask struct {
	Rule   int64 `json:"rule"`
	Number int64 `json:"number"`
	Held   Spans `json:"held,omitempty"`
	Want   int64 `json:"want,omitempty"`
}

// Answer answers a Message.
type Answer struct {
	// From is the region that answers, Epoch its epoch, and For the epoch of the message.
	From  string `json:"from"`
	Epoch int64  `json:"epoch"`
	For   int64  `json:"for"`
	// Known is the sender's epoch as the receiver knows it. A greater one than For: the message was ignored.
	Known int64 `json:"known"`
	// Term is for how long, in ms from the sending of the message, the grants count.
	Term   int64   `json:"term"`
	Grants []Grant `json:"grants,omitempty"`
	// Held are the spans of the sender's segment that the answering region holds, if the sender has Lost its state.
	// They replace what the sender knows.
	HasHeld bool  `json:"has_held,omitempty"`
	Held    []Ask `json:"held,omitempty"`
}

// Grant holds all spans of a rule that the receiver of a message has granted.
type Grant struct {
	Rule   int64 `json:"rule"`
	Number int64 `json:"number"`
	Spans  Spans `json:"spans,omitempty"`
}

// Decode reads a message that arrives at a time. It refuses everything that no region writes, such as unknown or
// repeated members, and values out of range.
func Decode(b []byte, now int64) (*Message, error) {
	m := &Message{}
	if err := decode(b, m); err != nil {
		return nil, err
	}
	if m.Version != Version {
		return nil, fmt.Errorf("%w: version %d, this node reads %d", region.ErrMessage, m.Version, Version)
	}
	names := append([]string{m.From, m.To, m.Prefix}, m.Regions...)
	if slices.ContainsFunc(names, func(n string) bool { return n == "" || len(n) > region.MaxName }) ||
		!upTo(now+mostAhead, m.Epoch, m.Yours) || len(m.Demand) > MostRules || !checked(m.Asks, now) ||
		!upTo(limiter.MaxExact, m.Set) || !upTo(limiter.MaxExact, slices.Collect(maps.Values(m.Demand))...) {
		return nil, fmt.Errorf("%w: a member is out of range", region.ErrMessage)
	}
	return m, nil
}

// DecodeAnswer reads an answer, as Decode does.
func DecodeAnswer(b []byte, now int64) (*Answer, error) {
	a := &Answer{}
	if err := decode(b, a); err != nil {
		return nil, err
	}
	ok := upTo(now+mostAhead, a.Epoch, a.For, a.Known) && upTo(limiter.MaxExact, a.Term) && checked(a.Held, now) &&
		len(a.Grants) <= MostRules
	for i := range a.Grants {
		ok = ok && upTo(now+mostAhead, a.Grants[i].Number) && a.Grants[i].Spans.valid()
	}
	if !ok {
		return nil, fmt.Errorf("%w: a member of the answer is out of range", region.ErrMessage)
	}
	return a, nil
}

func decode(b []byte, into any) error {
	if len(b) == 0 || len(b) > region.MaxMessage {
		return fmt.Errorf("%w: %d bytes, must be 1 to %d", region.ErrMessage, len(b), region.MaxMessage)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %w", region.ErrMessage, err)
	}
	if again, err := json.Marshal(into); err != nil || !bytes.Equal(again, bytes.TrimSuffix(b, []byte("\n"))) {
		return fmt.Errorf("%w: no region writes it in this way", region.ErrMessage)
	}
	return nil
}

func upTo(most int64, ns ...int64) bool {
	return !slices.ContainsFunc(ns, func(n int64) bool { return n < 0 || n > most })
}

func checked(asks []Ask, now int64) bool {
	return len(asks) <= MostRules && !slices.ContainsFunc(asks, func(a Ask) bool {
		return !upTo(now+mostAhead, a.Number) || a.Want < 0 || a.Want > Whole || !a.Held.valid()
	})
}

// Message returns what this region sends to another one.
func (s *State) Message(c *Config, to string, specs map[int64]Spec, now int64) *Message {
	m := &Message{Version: Version, From: c.Self, To: to, Prefix: c.Prefix, Regions: c.Regions, Epoch: s.Epoch,
		Yours: s.Known[to],
		Lost:  s.Lost != nil && !slices.Contains(s.Lost.Answered, to), Demand: s.Demand}
	for id, sp := range specs {
		want := partsOf(s.plan(c, id, sp, now).borrows[to], sp.Units)
		var b *Borrowed
		if r := s.Rules[id]; r != nil {
			b = r.Borrowed[to]
		}
		if b == nil && want == 0 || len(m.Asks) >= MostRules {
			continue
		}
		a := Ask{Rule: id, Want: want}
		if b != nil {
			a.Number, a.Held = b.Number, b.held()
		}
		m.Asks = append(m.Asks, a)
	}
	return m
}

// Answer takes a message of another region and answers it. Its grants are valid once the state is kept.
func (s *State) Answer(c *Config, m *Message, specs map[int64]Spec, now int64) *Answer {
	a := &Answer{From: c.Self, Epoch: s.Epoch, For: m.Epoch, Known: max(s.Known[m.From], m.Epoch), Term: c.Term}
	if m.Epoch < a.Known {
		return a
	}
	s.noteEpoch(m.From, m.Epoch)
	s.Received[m.From] = &Report{At: now, Demand: m.Demand}
	if m.Lost {
		a.HasHeld = true
		for id, r := range s.Rules {
			if b := r.Borrowed[m.From]; b != nil {
				s.end(c, r, specs[id], now) // a region that was frozen holds no part of loans that have ended
				a.Held = append(a.Held, Ask{Rule: id, Number: b.Number, Held: b.held()})
			}
		}
	}
	if m.Yours != s.Epoch {
		return a // its numbers are of another epoch; it asks again with this one
	}
	for i := range m.Asks {
		ask := &m.Asks[i]
		sp, ok := specs[ask.Rule]
		if !ok || s.unsure(c, sp, now) || s.Rules[ask.Rule] == nil && (ask.Number == 0 || len(s.Rules) >= MostRules) {
			continue
		}
		// The demand in the message decides which spans are withheld here. Otherwise a loan would end, and begin again
		// much later.
		s.withhold(c, s.rule(c, ask.Rule), sp, s.plan(c, ask.Rule, sp, now).lends, now)
		a.Grants = append(a.Grants, s.grant(c, m.From, ask, sp, now))
	}
	return a
}

// grant renews and extends what a region has of a rule.
func (s *State) grant(c *Config, to string, ask *Ask, sp Spec, now int64) Grant {
	r := s.rule(c, ask.Rule)
	l := r.Lent[to]
	if l == nil {
		l = &Lent{}
		r.Lent[to] = l
	}
	changed := false
	switch {
	case ask.Number == l.Number: // what it does not hold any more, it has given back
		for i := range l.Leases {
			if l.Leases[i].Kept {
				continue
			}
			kept := l.Leases[i].Spans.And(ask.Held)
			changed = changed || kept.Size() != l.Leases[i].Spans.Size()
			l.Leases[i].Spans = kept
		}
	case ask.Number > l.Number: // a number of before a loss
		l.Number, changed = ask.Number, true
	}
	own := c.own()[0]
	granted := l.all().And(Spans{{r.Keep, own.To}}.Plus(nil)) // spans that this region wants are not lent again
	for region, other := range r.Lent {
		if region != to { // after a loss two may say that they hold the same: neither gets it again
			granted = granted.Minus(other.all())
		}
	}
	if lacks := ask.Want - granted.Size(); lacks > 0 {
		more := r.lendable(c, sp, now).Last(lacks)
		granted = granted.Plus(more)
		r.Withheld = without(r.Withheld, more)
	}
	var leases []Lease
	for _, old := range l.Leases {
		if old.Spans = old.Spans.Minus(granted); len(old.Spans) > 0 {
			leases = append(leases, old)
		}
	}
	if len(granted) > 0 {
		leases = append(leases, c.lease(granted, sp.Life, now))
	}
	l.Leases = leases
	if changed || !slices.Equal(granted, l.Granted) {
		l.Number++
	}
	l.Granted = granted
	return Grant{Rule: ask.Rule, Number: l.Number, Spans: granted}
}

// lease is a lease that begins.
func (c *Config) lease(spans Spans, life, now int64) Lease {
	return Lease{Spans: spans, Until: now + c.Term + c.Valid + c.Skew + life, Life: life}
}

// Accept takes the answer to a message that was sent at a time. An answer of another epoch changes nothing.
func (s *State) Accept(c *Config, a *Answer, specs map[int64]Spec, sent, now int64) {
	if a.For != s.Epoch || a.Epoch < s.Known[a.From] {
		return
	}
	if a.Known > s.Epoch { // the other knows a later epoch: this state is an old one
		*s = *NewState(c, s, now)
		s.Epoch = max(s.Epoch, a.Known+1)
		return
	}
	s.noteEpoch(a.From, a.Epoch)
	if a.HasHeld && s.Lost != nil && !slices.Contains(s.Lost.Answered, a.From) {
		s.noteHeld(c, a, specs, now)
	}
	for i := range a.Grants {
		g := &a.Grants[i]
		if sp, ok := specs[g.Rule]; ok && (s.Rules[g.Rule] != nil || len(s.Rules) < MostRules) {
			s.take(c, a, g, sp, sent, now)
		}
	}
}

// noteHeld notes what a region holds of this one's segment.
func (s *State) noteHeld(c *Config, a *Answer, specs map[int64]Spec, now int64) {
	for i := range a.Held {
		h := &a.Held[i]
		life, ended := limiter.MaxWindow, false // of a rule that is not known here, for now
		if sp, ok := specs[h.Rule]; ok {
			life, ended = sp.Life, !s.unsure(c, sp, now)
		}
		r := s.rule(c, h.Rule)
		l := r.Lent[a.From]
		if l == nil {
			l = &Lent{}
			r.Lent[a.From] = l
		}
		l.Number = max(l.Number, h.Number) + 1
		if held := h.Held.And(c.own()); len(held) > 0 && !ended { // what has ended this region spends again
			l.Leases = append(l.Leases, c.lease(held, life, now))
		}
		l.Granted = l.all()
	}
	if s.Lost.Answered = append(s.Lost.Answered, a.From); len(s.Lost.Answered) >= len(c.Regions)-1 {
		s.Lost = nil
	}
}

// take takes a grant.
func (s *State) take(c *Config, a *Answer, g *Grant, sp Spec, sent, now int64) {
	r := s.rule(c, g.Rule)
	b := r.Borrowed[a.From]
	if b == nil {
		b = &Borrowed{}
		r.Borrowed[a.From] = b
	}
	spans := g.Spans.And(c.segment(a.From))
	switch {
	case g.Number < b.Number:
		return
	case g.Number == b.Number:
		spans = b.Granted.And(spans)
	}
	// An answer to a late message may grant for a shorter time than the grant before. The other region lends what is in
	// both for the longer one, and until then nodes may use it.
	until := max(b.Until, sent+min(a.Term, c.Term))
	b.leave(b.used().Minus(spans), sp, now)
	b.Number, b.Granted, b.Until, b.Life = g.Number, spans, until, sp.Life
}
