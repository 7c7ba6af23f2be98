package records

import (
	"strings"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// event makes the event of a raw one.
func (c *conceal) event(from *rawEvent, node string) Event {
	e := Event{
		Schema: Schema, TS: from.at, Allowed: from.allowed, Weight: from.weight, Status: from.status,
		UserAgent: bounded(c.words(from.agent), decide.MaxUserAgent),
		TraceID:   bounded(c.trace(from.trace), decide.MaxTraceID),
		RequestID: c.text(from.id), Op: opName(from.op), Face: from.face, Node: node, Mode: rules.ModeEnforce,
		Degraded: from.degraded, Overloaded: from.overloaded, RetryAfterMS: from.retry, Rate: from.by.rate,
		Drawn: from.by.drawn, Folded: from.folded, ReserveMS: from.reserve, Omitted: c.omitted,
		Limits: make([]Limit, len(from.limits)),
	}
	if c.omit["user_agent"] {
		e.UserAgent = ""
	}
	if from.onlyBans {
		e.Only = OnlyBans
	}
	e.Granted = from.granted
	if from.decided != nil {
		e.By, e.Decisions = decide.ByCaller, &Decisions{from.decided.Allowed, from.decided.Denied}
	}
	if from.unsure {
		e.Deferred = DeferredUnknown
	}
	for i := range from.limits {
		e.Limits[i] = c.limit(&from.limits[i])
	}
	if from.more > 0 {
		e.Shortened = append(e.Shortened, "limits")
	}
	if from.strictest >= 0 && from.strictest < len(e.Limits) {
		l := &e.Limits[from.strictest]
		e.Key, e.Rule, e.RuleVersion, e.Limit, e.Used, e.Mode = l.Key, l.Rule, l.RuleVersion, l.Limit, l.Used, l.Mode
	} else if len(e.Limits) > 0 { // no limit has figures, or only limits on trial applied
		l := &e.Limits[0]
		e.Key, e.Rule, e.RuleVersion, e.Limit, e.Mode = l.Key, l.Rule, l.RuleVersion, l.Limit, l.Mode
	}
	if from.hasFacts {
		c.facts(&e, from)
	}
	return e
}

// facts adds what the rules saw.
func (c *conceal) facts(e *Event, from *rawEvent) {
	shown := func(name, v string) string {
		if c.omit[name] {
			return ""
		}
		return v
	}
	e.ClientIP = c.clientIP(from.ip)
	e.Method, e.Route = shown("method", c.text(from.method)), shown("route", c.path(from.route))
	f := &Facts{Method: e.Method, Route: e.Route, Host: shown("host", c.words(from.host)), IP: c.factIP(from.ip),
		User: shown("user", c.text(from.user)), Tier: shown("tier", c.text(from.tier))}
	if from.apiKey != "" && !c.omit["api_key"] {
		f.APIKey = c.hash(from.apiKey)
	}
	for _, a := range from.attributes {
		if c.omit["attr:"+a.name] {
			continue
		}
		if f.Attributes == nil {
			f.Attributes = make(map[string]string, len(from.attributes))
		}
		f.Attributes[c.text(a.name)] = c.text(a.value)
	}
	for _, n := range from.fields {
		if c.omit["field:"+n.name] {
			continue
		}
		if f.Fields == nil {
			f.Fields = make(map[string]int64, len(from.fields))
		}
		f.Fields[c.text(n.name)] = n.value
	}
	e.Facts = f
}

func (c *conceal) limit(from *rawLimit) Limit {
	l := Limit{Rule: c.text(from.rule), RuleVersion: from.version, Mode: from.mode, Limit: from.limit,
		Allowed: from.allowed, Weight: from.weight, RetryAfterMS: from.retry, Degraded: from.degraded,
		Overloaded: from.overloaded, ConditionFailed: from.conditionFailed}
	if from.direct {
		l.Key = c.directKey(match.DisplayDirectKey(limiter.Key(from.key)))
		l.Direct = direct(from.spec)
	} else {
		l.Key = c.key(limiter.Key(from.key))
	}
	if from.known && !from.returned {
		l.Used = from.used
	}
	return l
}

func direct(l limiter.Limit) *Direct {
	d := &Direct{Algorithm: l.Algorithm.String(), Limit: l.Count, WindowMS: l.Window, Burst: l.Burst, AnchorMS: l.Anchor,
		Buckets: l.Buckets}
	if l.Align == limiter.AlignFirstHit {
		d.Align = l.Align.String()
	}
	return d
}

// opName is the word of the API for an operation.
func opName(op limiter.Op) string {
	if op == limiter.OpTake {
		return "check"
	}
	return op.String()
}

// bounded cuts a text to n bytes, at a rune.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
