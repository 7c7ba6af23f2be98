package backtest

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"sluice/internal/records"
	"sluice/limiter"
)

const (
	// orderMS and maxOrder bound how long events wait for earlier ones, in ms and in number.
	orderMS  = 60_000
	maxOrder = 16_384
	// maxFolded bounds the requests that one event stands for.
	maxFolded = 1_000_000
	// maxProblems bounds the problems of a log that are named; all are counted.
	maxProblems = 10
	// maxTS is the last ms of the year 9999.
	maxTS = 253_402_300_799_999
	// leastRate is the least percentage at which entities are drawn: one of 100 million. The counts of a report, in
	// which each event stands for 100 / rate, stay within 64 bits.
	leastRate = 1e-6
	// foldSpan is the time over which the requests of a folded event are spread, in ms: denials are folded by the second.
	foldSpan = 1000
)

// Problem is something in a log that cannot be read. Line is 0 for a whole file.
type Problem struct {
	File string `json:"file"`
	Line int64  `json:"line"`
	Text string `json:"text"`
}

// String says it in a line.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.Text)
}

// Entry is an event at the time at which it is replayed.
type Entry struct {
	Event *records.Event
	// TS is the time in ms since the epoch. It is the event's, later for the repeats of a folded event and for events
	// that came too late to be sorted.
	TS   int64
	File string
	Line int64

	repeat, place, sequence int64
}

// Log reads events from several places in order of time. Those that are out of order by up to a minute are sorted.
// It belongs to one goroutine.
type Log struct {
	places   []Lines
	heads    []*Entry // the next of each place, nil at its end
	waiting  entryHeap
	newest   int64
	last     int64
	sequence int64
	begun    bool
	decoder  records.Decoder
	more     func() bool // whether to read another line; nil for all

	// Lines counts the lines that were read, Corrupt the lines that are no events, and Late the events that were
	// replayed later than they happened, because they stood too late in the log to be sorted.
	Lines, Corrupt, Late int64
	// Problems are the first problems.
	Problems []Problem
}

// NewLog returns a log of the events of some places. Among events with the same time, events of the first place come
// first.
func NewLog(places ...Lines) *Log { return &Log{places: places, heads: make([]*Entry, len(places))} }

// Next returns the next event, io.EOF at the end. An event that stands for several denials comes again, spread over a
// second.
func (l *Log) Next(ctx context.Context) (*Entry, error) {
	if !l.begun {
		l.begun = true
		for i := range l.places {
			if err := l.advance(ctx, i); err != nil {
				return nil, err
			}
		}
	}
	for len(l.waiting) < maxOrder && (len(l.waiting) == 0 || l.newest-l.waiting[0].TS < orderMS) {
		first := -1
		for i, e := range l.heads {
			if e != nil && (first < 0 || e.TS < l.heads[first].TS) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		e := l.heads[first]
		l.newest = max(l.newest, e.TS)
		heap.Push(&l.waiting, e)
		if err := l.advance(ctx, first); err != nil {
			return nil, err
		}
	}
	if len(l.waiting) == 0 {
		return nil, io.EOF
	}
	e, _ := heap.Pop(&l.waiting).(*Entry)
	if e.repeat < e.Event.Folded {
		again := *e
		if again.repeat++; e.Event.RequestID != "" { // only the first request had it
			event := *e.Event
			event.RequestID = ""
			again.Event = &event
		}
		again.TS = e.TS - foldSpan*e.repeat/(e.Event.Folded+1) + foldSpan*again.repeat/(e.Event.Folded+1)
		l.newest = max(l.newest, again.TS)
		heap.Push(&l.waiting, &again)
	}
	if e.TS < l.last {
		l.Late++
		e.TS = l.last
	}
	l.last = e.TS
	return e, nil
}

// advance reads the next event of a place.
func (l *Log) advance(ctx context.Context, i int) error {
	l.heads[i] = nil
	for l.more == nil || l.more() {
		line, number, err := l.places[i].Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrCut):
			l.problem(i, number, err.Error()+"; what stands before it was read")
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", l.places[i].Name(), err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		l.Lines++
		var e *records.Event
		if err = errTooLong; !bytes.Equal(line, tooLong) {
			e, err = parse(&l.decoder, line)
		}
		if schema, ok := errors.AsType[*SchemaError](err); ok {
			schema.File, schema.Line = l.places[i].Name(), number
			return schema
		}
		if err != nil {
			l.Corrupt++
			l.problem(i, number, err.Error())
			continue
		}
		l.sequence++
		l.heads[i] = &Entry{Event: e, TS: e.TS, File: l.places[i].Name(), Line: number,
			place: int64(i), sequence: l.sequence}
		return nil
	}
	return nil
}

func (l *Log) problem(i int, line int64, text string) {
	if len(l.Problems) < maxProblems {
		l.Problems = append(l.Problems, Problem{File: l.places[i].Name(), Line: line, Text: text})
	}
}

// SchemaError means that a log contains events of another schema.
type SchemaError struct {
	File   string
	Line   int64
	Schema int
}

// Error implements error.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s, line %d: the event has schema %d, and this version of Sluice reads schema %d: "+
		"use the version of Sluice that wrote the log, or leave these events out", e.File, e.Line, e.Schema, records.Schema)
}

// parse reads one event.
func parse(decoder *records.Decoder, line []byte) (*records.Event, error) {
	e, err := decoder.Decode(line)
	if err != nil {
		var schema struct{ Schema int }
		if json.Unmarshal(line, &schema) == nil && schema.Schema > records.Schema {
			return nil, &SchemaError{Schema: schema.Schema}
		}
		return nil, fmt.Errorf("is no event: %w", err)
	}
	switch {
	case e.Schema == 0:
		return nil, errors.New("is no event: it has no member schema")
	case e.Schema != records.Schema:
		return nil, &SchemaError{Schema: e.Schema}
	case e.TS <= 0 || e.TS > maxTS:
		return nil, fmt.Errorf("has the time %d", e.TS)
	case !slices.Contains(records.Ops(), e.Op):
		return nil, fmt.Errorf("has the operation %q, which is unknown", clip(e.Op))
	case e.Folded < 0 || e.Folded > maxFolded:
		return nil, fmt.Errorf("stands for %d other requests", e.Folded)
	case e.Rate < 0 || e.Rate > 100 || e.Drawn && e.Rate < leastRate:
		return nil, fmt.Errorf("has the rate %g", e.Rate)
	case e.Weight < -1 || e.Weight > limiter.MaxExact || e.Weight < 0 && e.Op != "settle":
		return nil, fmt.Errorf("has the weight %d", e.Weight)
	}
	return e, nil
}

// clip shortens a text of a log for a message.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// entryHeap puts the earliest entry first. Entries with the same time are in the order of their places, and then in the
// order of reading.
type entryHeap []*Entry

func (h entryHeap) Len() int      { return len(h) }
func (h entryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h entryHeap) Less(i, j int) bool {
	if h[i].TS != h[j].TS {
		return h[i].TS < h[j].TS
	}
	return cmp.Or(cmp.Compare(h[i].place, h[j].place), cmp.Compare(h[i].sequence, h[j].sequence)) < 0
}

// Push implements heap.Interface.
func (h *entryHeap) Push(x any) {
	e, _ := x.(*Entry)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *entryHeap) Pop() any {
	n := len(*h) - 1
	e := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	return e
}
