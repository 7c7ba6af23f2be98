package records

import (
	"slices"
	"strconv"

	"sluice/api/reply"
)

// Append appends the event as one JSON object without a line end. It writes what encoding/json would, with less work:
// a node encodes every decision.
func (e *Event) Append(b []byte) []byte {
	w := object{b: b}
	w.open()
	w.int("schema", int64(e.Schema))
	w.int("ts", e.TS)
	w.text("key", e.Key)
	w.text("rule", e.Rule)
	w.int("rule_version", e.RuleVersion)
	w.int("limit", e.Limit)
	w.int("used", e.Used)
	w.bool("allowed", e.Allowed)
	w.int("weight", e.Weight)
	w.int("status", int64(e.Status))
	w.text("client_ip", e.ClientIP)
	w.text("user_agent", e.UserAgent)
	w.text("trace_id", e.TraceID)
	w.text("request_id", e.RequestID)
	w.text("route", e.Route)
	w.text("method", e.Method)
	w.text("op", e.Op)
	if e.Only != "" {
		w.text("only", e.Only)
	}
	if e.ReserveMS != 0 {
		w.int("reserve_ms", e.ReserveMS)
	}
	if e.Granted != 0 {
		w.int("granted", e.Granted)
	}
	if e.By != "" {
		w.text("by", e.By)
	}
	if d := e.Decisions; d != nil {
		w.name("decisions")
		w.open()
		w.int("allowed", d.Allowed)
		w.int("denied", d.Denied)
		w.b = append(w.b, '}')
		w.first = false
	}
	w.text("face", e.Face)
	w.text("node", e.Node)
	w.text("mode", e.Mode)
	w.text("degraded", e.Degraded)
	if e.Overloaded {
		w.bool("overloaded", true)
	}
	if e.Deferred != "" {
		w.text("deferred", e.Deferred)
	}
	w.int("retry_after_ms", e.RetryAfterMS)
	w.name("rate")
	w.b = strconv.AppendFloat(w.b, e.Rate, 'f', -1, 64)
	w.bool("drawn", e.Drawn)
	w.int("folded", e.Folded)
	w.name("facts")
	if e.Facts == nil {
		w.b = append(w.b, "null"...)
	} else {
		e.Facts.append(&w)
	}
	w.texts("omitted", e.Omitted)
	w.name("limits")
	w.b = append(w.b, '[')
	for i := range e.Limits {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		e.Limits[i].append(&w)
	}
	w.b = append(w.b, ']')
	w.texts("shortened", e.Shortened)
	return append(w.b, '}')
}

func (f *Facts) append(w *object) {
	w.open()
	for _, m := range [...]struct{ name, v string }{
		{"method", f.Method}, {"route", f.Route}, {"host", f.Host}, {"ip", f.IP}, {"user", f.User}, {"api_key", f.APIKey},
		{"tier", f.Tier},
	} {
		if m.v != "" {
			w.text(m.name, m.v)
		}
	}
	if len(f.Attributes) > 0 {
		w.name("attributes")
		w.open()
		var some [8]string
		for _, name := range sorted(some[:0], f.Attributes) {
			w.text(name, f.Attributes[name])
		}
		w.b = append(w.b, '}')
	}
	if len(f.Fields) > 0 {
		w.name("fields")
		w.open()
		var some [8]string
		for _, name := range sorted(some[:0], f.Fields) {
			w.int(name, f.Fields[name])
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, '}')
	w.first = false
}

// sorted appends the keys of m in order.
func sorted[V any](keys []string, m map[string]V) []string {
	for name := range m {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return keys
}

func (l *Limit) append(w *object) {
	w.open()
	w.text("key", l.Key)
	w.text("rule", l.Rule)
	w.int("rule_version", l.RuleVersion)
	w.text("mode", l.Mode)
	w.int("limit", l.Limit)
	w.int("used", l.Used)
	w.bool("allowed", l.Allowed)
	w.int("weight", l.Weight)
	w.int("retry_after_ms", l.RetryAfterMS)
	if l.Degraded != "" {
		w.text("degraded", l.Degraded)
	}
	if l.Overloaded {
		w.bool("overloaded", true)
	}
	if l.ConditionFailed {
		w.bool("condition_failed", true)
	}
	if d := l.Direct; d != nil {
		w.name("direct")
		w.open()
		w.text("algorithm", d.Algorithm)
		w.int("limit", d.Limit)
		w.int("window_ms", d.WindowMS)
		if d.Burst != 0 {
			w.int("burst", d.Burst)
		}
		if d.Align != "" {
			w.text("align", d.Align)
		}
		if d.AnchorMS != 0 {
			w.int("anchor_ms", d.AnchorMS)
		}
		if d.Buckets != 0 {
			w.int("buckets", d.Buckets)
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, '}')
	w.first = false
}

// object writes the members of JSON objects.
type object struct {
	b     []byte
	first bool // no member was written yet
}

func (w *object) open() { w.b, w.first = append(w.b, '{'), true }

func (w *object) name(name string) {
	if !w.first {
		w.b = append(w.b, ',')
	}
	w.first = false
	w.b = append(reply.AppendString(w.b, name), ':')
}

func (w *object) text(name, v string) {
	w.name(name)
	w.b = reply.AppendString(w.b, v)
}

// texts writes a list unless it is empty.
func (w *object) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	w.name(name)
	w.b = append(w.b, '[')
	for i, s := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = reply.AppendString(w.b, s)
	}
	w.b = append(w.b, ']')
}

func (w *object) int(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *object) bool(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}
