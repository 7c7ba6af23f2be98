package rules

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"sluice/rules/quantity"
)

// MaxMessage is the longest message of a rule, in characters.
const MaxMessage = 300

// Message is the text for denied clients of a rule: its own words and placeholders. It is safe for
// concurrent use.
type Message struct {
	parts []messagePart
	waits bool // it says when to try again
	route string
}

// messagePart is a text, and a placeholder behind it unless that is "".
type messagePart struct{ text, name string }

// MessageValues are the values of placeholders.
type MessageValues struct {
	// Limit is the limit in force as people read it, per WindowMS, in ms, or per Period unless that is nil.
	Limit    string
	WindowMS int64
	Period   *Period
	// Key is the bucket for people, without credentials, and Route the path of the request; "" stands for the
	// rule's own.
	Key, Route string
	// RetryAfter is in seconds, negative if waiting does not help.
	RetryAfter int64
}

var messageNames = []string{"limit", "window", "key", "route", "retry_after"}

// parseMessage reads the message of a rule for a route, "" for every route: {limit}, {window}, {key}, {route} and
// {retry_after} are placeholders, {{ is a brace.
func parseMessage(text, route string) (*Message, error) {
	m := Message{route: route}
	var own strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		own.WriteString(before)
		if !found {
			m.parts = append(m.parts, messagePart{text: own.String()})
			return &m, nil
		}
		if after, brace := strings.CutPrefix(rest, "{"); brace {
			own.WriteByte('{')
			text = after
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		known := false
		for _, n := range messageNames {
			known = known || n == name
		}
		if !closed || !known {
			return nil, fmt.Errorf("must have only the placeholders {%s}; write {{ for a brace",
				strings.Join(messageNames, "}, {"))
		}
		m.waits = m.waits || name == "retry_after"
		m.parts = append(m.parts, messagePart{own.String(), name})
		own.Reset()
		text = after
	}
}

// Text returns the message with its values. It is "" if the message says when to try again and waiting does
// not help.
func (m *Message) Text(v *MessageValues) string {
	if m.waits && v.RetryAfter < 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range m.parts {
		b.WriteString(p.text)
		switch p.name {
		case "limit":
			b.WriteString(v.Limit)
		case "window":
			b.WriteString(v.window())
		case "key":
			b.WriteString(v.Key)
		case "route":
			b.WriteString(cmp.Or(v.Route, m.route, "every route"))
		case "retry_after":
			b.WriteString(strconv.FormatInt(v.RetryAfter, 10))
		}
	}
	return b.String()
}

// window returns what the limit is per.
func (v *MessageValues) window() string {
	if v.Period != nil {
		return v.Period.Every
	}
	return quantity.Period(v.WindowMS)
}
