package records

import "slices"

// MaxEvent bounds an encoded event, in bytes.
const MaxEvent = 16 << 10

const (
	// shortText and fewLimits bound the texts, in bytes, and the limits of an event that was too long.
	shortText = 256
	fewLimits = 16
)

// cuts shorten an event that is too long, the least important member first. They are applied in order until the event
// fits.
var cuts = []struct {
	member string
	cut    func(*Event)
}{
	{"user_agent", func(e *Event) { e.UserAgent = "" }},
	{"facts.attributes", func(e *Event) {
		if e.Facts != nil {
			for name, v := range e.Facts.Attributes {
				if len(v) > shortText || len(name) > shortText {
					delete(e.Facts.Attributes, name)
				}
			}
		}
	}},
	{"limits", func(e *Event) {
		e.Limits = e.Limits[:min(len(e.Limits), fewLimits)]
	}},
	{"facts.fields", func(e *Event) {
		if e.Facts != nil {
			e.Facts.Fields = nil
		}
	}},
	{"facts", func(e *Event) { e.Facts = nil }},
	{"route", func(e *Event) { e.Route = bounded(e.Route, shortText) }},
	{"key", func(e *Event) { e.Key = bounded(e.Key, shortText) }},
	{"limits", func(e *Event) { e.Limits = nil }},
	{"client_ip", func(e *Event) { e.ClientIP = "" }}, // short by nature, but nothing else is left
}

// appendShort encodes an event with at most MaxEvent bytes.
func appendShort(b []byte, e *Event) []byte {
	from := len(b)
	b = e.Append(b)
	for _, c := range cuts {
		if len(b)-from <= MaxEvent {
			return b
		}
		before := len(b)
		c.cut(e)
		if b = e.Append(b[:from]); len(b) < before && !slices.Contains(e.Shortened, c.member) {
			e.Shortened = append(e.Shortened, c.member)
			b = e.Append(b[:from])
		}
	}
	return b
}
