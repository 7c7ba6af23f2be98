package overview

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/records"
	"sluice/web/view"
)

// LogLine is what became of the events of a decision log of this node since its start.
type LogLine struct {
	// Sink is where the log goes: file or kafka.
	Sink string
	records.Totals
}

// logLines are the decision logs of this node, by sink.
func (p *Pages) logLines() []LogLine {
	var out []LogLine
	for _, sink := range slices.Sorted(maps.Keys(p.DecisionLogs)) {
		out = append(out, LogLine{sink, p.DecisionLogs[sink]()})
	}
	return out
}

// dropped is the number of events that were lost for certain.
func (l *LogLine) dropped() (n int64) {
	for _, of := range l.Dropped {
		n += of
	}
	return n
}

// longWait is the age of a buffered event from which on something is wrong: events wait for less than a second.
const longWait = 10 * time.Second

// waits reports whether the log does not take events now.
func (l *LogLine) waits() bool { return l.Buffered > 0 && l.Age >= longWait }

// reasons says why events were dropped: "ring full 12, too old 3".
func (l *LogLine) reasons() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(l.Dropped)) {
		if n := l.Dropped[reason]; n > 0 {
			parts = append(parts, strings.ReplaceAll(reason, "_", " ")+" "+view.Count(n))
		}
	}
	return strings.Join(parts, ", ")
}

// title names the log.
func (l *LogLine) title() string {
	if l.Sink == "kafka" {
		return "Kafka"
	}
	return "Files"
}
