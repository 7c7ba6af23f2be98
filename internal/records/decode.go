package records

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

const (
	// maxShared and maxSharedText bound the texts that a Decoder shares between events, in number and in bytes.
	maxShared     = 4096
	maxSharedText = 64
)

// Decoder decodes events as encoding/json does. Events written by Append take much less work: a replay reads millions
// of them. Equal texts share their memory. The zero value is ready. It belongs to one goroutine.
type Decoder struct {
	shared map[string]string
	b      []byte // what is not read yet
}

// Decode decodes one event. The error is the error of encoding/json.
func (d *Decoder) Decode(line []byte) (*Event, error) {
	e := &Event{}
	if d.b = line; d.event(e) && len(d.b) == 0 {
		return e, nil
	}
	e = &Event{}
	return e, json.Unmarshal(line, e)
}

// The methods below read what Append writes. They return false for everything else, such as a text with an escape, a
// blank, or an unknown member, which is left to encoding/json.

func (d *Decoder) event(e *Event) bool {
	return d.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "schema":
			return 0, d.small(&e.Schema)
		case "ts":
			return 1, d.int(&e.TS)
		case "key":
			return 2, d.text(&e.Key)
		case "rule":
			return 3, d.text(&e.Rule)
		case "rule_version":
			return 4, d.int(&e.RuleVersion)
		case "limit":
			return 5, d.int(&e.Limit)
		case "used":
			return 6, d.int(&e.Used)
		case "allowed":
			return 7, d.bool(&e.Allowed)
		case "weight":
			return 8, d.int(&e.Weight)
		case "status":
			return 9, d.small(&e.Status)
		case "client_ip":
			return 10, d.text(&e.ClientIP)
		case "user_agent":
			return 11, d.text(&e.UserAgent)
		case "trace_id":
			return 12, d.text(&e.TraceID)
		case "request_id":
			return 13, d.text(&e.RequestID)
		case "route":
			return 14, d.text(&e.Route)
		case "method":
			return 15, d.text(&e.Method)
		case "op":
			return 16, d.text(&e.Op)
		case "only":
			return 17, d.text(&e.Only)
		case "reserve_ms":
			return 18, d.int(&e.ReserveMS)
		case "granted":
			return 33, d.int(&e.Granted)
		case "by":
			return 34, d.text(&e.By)
		case "decisions":
			e.Decisions = &Decisions{}
			return 35, d.decisions(e.Decisions)
		case "face":
			return 19, d.text(&e.Face)
		case "node":
			return 20, d.text(&e.Node)
		case "mode":
			return 21, d.text(&e.Mode)
		case "degraded":
			return 22, d.text(&e.Degraded)
		case "overloaded":
			return 31, d.bool(&e.Overloaded)
		case "deferred":
			return 32, d.text(&e.Deferred)
		case "retry_after_ms":
			return 23, d.int(&e.RetryAfterMS)
		case "rate":
			return 24, d.float(&e.Rate)
		case "drawn":
			return 25, d.bool(&e.Drawn)
		case "folded":
			return 26, d.int(&e.Folded)
		case "facts":
			if d.literal("null") {
				return 27, true
			}
			e.Facts = &Facts{}
			return 27, d.facts(e.Facts)
		case "omitted":
			return 28, d.texts(&e.Omitted)
		case "limits":
			return 29, d.limits(&e.Limits)
		case "shortened":
			return 30, d.texts(&e.Shortened)
		}
		return 0, false
	})
}

func (d *Decoder) decisions(of *Decisions) bool {
	return d.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "allowed":
			return 0, d.int(&of.Allowed)
		case "denied":
			return 1, d.int(&of.Denied)
		}
		return 0, false
	})
}

func (d *Decoder) facts(f *Facts) bool {
	return d.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "method":
			return 0, d.text(&f.Method)
		case "route":
			return 1, d.text(&f.Route)
		case "host":
			return 2, d.text(&f.Host)
		case "ip":
			return 3, d.text(&f.IP)
		case "user":
			return 4, d.text(&f.User)
		case "api_key":
			return 5, d.text(&f.APIKey)
		case "tier":
			return 6, d.text(&f.Tier)
		case "attributes":
			f.Attributes = map[string]string{}
			return 7, d.members(func(name string) bool {
				var v string
				ok := d.text(&v)
				f.Attributes[name] = v
				return ok
			})
		case "fields":
			f.Fields = map[string]int64{}
			return 8, d.members(func(name string) bool {
				var v int64
				ok := d.int(&v)
				f.Fields[name] = v
				return ok
			})
		}
		return 0, false
	})
}

func (d *Decoder) limits(list *[]Limit) bool {
	*list = []Limit{}
	return d.list(func() bool {
		*list = append(*list, Limit{})
		return d.limit(&(*list)[len(*list)-1])
	})
}

func (d *Decoder) limit(l *Limit) bool {
	return d.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "key":
			return 0, d.text(&l.Key)
		case "rule":
			return 1, d.text(&l.Rule)
		case "rule_version":
			return 2, d.int(&l.RuleVersion)
		case "mode":
			return 3, d.text(&l.Mode)
		case "limit":
			return 4, d.int(&l.Limit)
		case "used":
			return 5, d.int(&l.Used)
		case "allowed":
			return 6, d.bool(&l.Allowed)
		case "weight":
			return 7, d.int(&l.Weight)
		case "retry_after_ms":
			return 8, d.int(&l.RetryAfterMS)
		case "degraded":
			return 9, d.text(&l.Degraded)
		case "overloaded":
			return 10, d.bool(&l.Overloaded)
		case "condition_failed":
			return 11, d.bool(&l.ConditionFailed)
		}
		return 0, false // also direct, which is rare
	})
}

// object reads the members of an object. member reads the value of a known one and returns its number, up to 31.
func (d *Decoder) object(member func(name []byte) (int, bool)) bool {
	if !d.literal("{") {
		return false
	}
	seen := uint64(0)
	for first := true; !d.literal("}"); first = false {
		if !first && !d.literal(",") {
			return false
		}
		name, ok := d.quoted()
		if !ok || !d.literal(":") {
			return false
		}
		number, ok := member(name)
		if !ok || seen&(1<<number) != 0 {
			return false
		}
		seen |= 1 << number
	}
	return true
}

// members reads an object whose members have any names.
func (d *Decoder) members(value func(name string) bool) bool {
	if !d.literal("{") {
		return false
	}
	for first := true; !d.literal("}"); first = false {
		if !first && !d.literal(",") {
			return false
		}
		var name string
		if !d.text(&name) || !d.literal(":") || !value(name) {
			return false
		}
	}
	return true
}

func (d *Decoder) list(element func() bool) bool {
	if !d.literal("[") {
		return false
	}
	for first := true; !d.literal("]"); first = false {
		if !first && !d.literal(",") || !element() {
			return false
		}
	}
	return true
}

func (d *Decoder) texts(list *[]string) bool {
	*list = []string{}
	return d.list(func() bool {
		var v string
		ok := d.text(&v)
		*list = append(*list, v)
		return ok
	})
}

// literal reads just these bytes.
func (d *Decoder) literal(text string) bool {
	if len(d.b) < len(text) || string(d.b[:len(text)]) != text {
		return false
	}
	d.b = d.b[len(text):]
	return true
}

// quoted reads a text without escapes.
func (d *Decoder) quoted() ([]byte, bool) {
	if len(d.b) == 0 || d.b[0] != '"' {
		return nil, false
	}
	ascii := true
	for i := 1; i < len(d.b); i++ {
		switch c := d.b[i]; {
		case c == '"':
			text := d.b[1:i]
			d.b = d.b[i+1:]
			return text, ascii || utf8.Valid(text)
		case c == '\\', c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

func (d *Decoder) text(v *string) bool {
	b, ok := d.quoted()
	if !ok || len(b) == 0 {
		return ok
	}
	if known, is := d.shared[string(b)]; is {
		*v = known
		return true
	}
	*v = string(b)
	if len(b) <= maxSharedText && len(d.shared) < maxShared {
		if d.shared == nil {
			d.shared = map[string]string{}
		}
		d.shared[*v] = *v
	}
	return true
}

func (d *Decoder) bool(v *bool) bool {
	*v = d.literal("true")
	return *v || d.literal("false")
}

// digits reads digits without a leading 0, as few as JSON allows and at most 18.
func (d *Decoder) digits() (n int64, ok bool) {
	i := 0
	for ; i < len(d.b) && d.b[i] >= '0' && d.b[i] <= '9'; i++ {
		if i >= 18 || i == 1 && d.b[0] == '0' {
			return 0, false
		}
		n = n*10 + int64(d.b[i]-'0')
	}
	d.b = d.b[i:]
	// A fraction or an exponent follows: not an integer.
	return n, i > 0 && (len(d.b) == 0 || d.b[0] != '.' && d.b[0] != 'e' && d.b[0] != 'E')
}

func (d *Decoder) int(v *int64) bool {
	negative := d.literal("-")
	n, ok := d.digits()
	if *v = n; negative {
		*v = -n
	}
	return ok
}

func (d *Decoder) small(v *int) bool {
	var n int64
	ok := d.int(&n)
	*v = int(n)
	return ok
}

// float reads a number such as 0.25 or 100.
func (d *Decoder) float(v *float64) bool {
	whole := d.b
	if n, ok := d.digits(); ok {
		*v = float64(n)
		return true
	}
	if len(d.b) < 2 || d.b[0] != '.' || len(d.b) == len(whole) {
		return false
	}
	i := 1
	for ; i < len(d.b) && d.b[i] >= '0' && d.b[i] <= '9'; i++ {
	}
	if i == 1 || i < len(d.b) && (d.b[i] == 'e' || d.b[i] == 'E') {
		return false
	}
	text := whole[:len(whole)-len(d.b)+i]
	d.b = d.b[i:]
	var err error
	*v, err = strconv.ParseFloat(string(text), 64)
	return err == nil
}
