package overview

import (
	"maps"
	"slices"
	"strings"

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
