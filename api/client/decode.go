package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// decode decodes a response.
func decode(raw []byte, into any) error {
	if a, ok := into.(*Answer); ok {
		return a.read(raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return unreadable("the server's response is not valid: %w", err)
	}
	return nil
}

// read decodes an answer. JSON of a server between the client and the service lacks allowed, or has a status that
// cannot be sent to a client.
func (a *Answer) read(raw []byte) error {
	if !a.scan(raw) {
		got := struct {
			*Answer
			Allowed *bool `json:"allowed"`
		}{Answer: a}
		if err := decode(raw, &got); err != nil {
			return err
		}
		if got.Allowed == nil {
			return errNoAnswer
		}
		a.Allowed = *got.Allowed
	}
	if a.Status < 200 || a.Status > 599 || !sendable(a.Headers) {
		return errNoAnswer
	}
	return nil
}

// sendable reports whether the program can send the headers to its own client.
func sendable(headers map[string]string) bool {
	for name, value := range headers {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
		}) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// scan decodes an answer in the form in which the service writes it, which takes a small part of the time of
// encoding/json. For any other form, and without the member allowed, it reports false and changes nothing.
func (a *Answer) scan(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	memory := &struct {
		limits  [1]LimitAnswer
		figures [12]int64
	}{}
	// All texts are parts of one string.
	p := scanner{s: string(bytes.TrimSuffix(raw, []byte{'\n'})), limits: memory.limits[:0], figures: memory.figures[:0]}
	var got Answer
	p.answer(&got)
	if p.failed || p.i != len(p.s) || !p.decided {
		return false
	}
	*a = got
	return true
}

// splitResults returns the elements of a batch's results, which are not validated yet.
func splitResults(raw []byte) ([]json.RawMessage, error) {
	p := scanner{s: string(raw)}
	p.expect(`{"results":[`)
	var out []json.RawMessage
	for end := !p.failed; end; {
		from := p.i
		p.skip()
		out = append(out, raw[from:p.i])
		end = p.take(',')
	}
	if p.expect("]}"); !p.failed {
		return out, nil
	}
	var results struct {
		Results []json.RawMessage `json:"results"`
	}
	err := decode(raw, &results)
	return results.Results, err
}

// scanner reads JSON without blanks. What it does not know, it fails.
type scanner struct {
	s      string
	i      int
	failed bool
	// decided: the answer contains the member allowed.
	decided bool
	// limits and figures are memory for the limits and figures of an answer.
	limits  []LimitAnswer
	figures []int64
}

func (p *scanner) fail() { p.failed, p.i = true, len(p.s) }

// take skips c if it is next.
func (p *scanner) take(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *scanner) expect(text string) {
	if !strings.HasPrefix(p.s[p.i:], text) {
		p.fail()
		return
	}
	p.i += len(text)
}

func (p *scanner) null() bool {
	if strings.HasPrefix(p.s[p.i:], "null") {
		p.i += len("null")
		return true
	}
	return false
}

// object calls member for each member, whose value is next.
func (p *scanner) object(member func(name string)) {
	p.expect("{")
	if p.take('}') {
		return
	}
	for more := true; more && !p.failed; more = p.take(',') {
		name, escaped := p.quoted()
		p.expect(":")
		if escaped || p.failed {
			p.fail()
			return
		}
		member(name)
	}
	p.expect("}")
}

// text reads a string. null leaves what was there.
func (p *scanner) text(into *string) {
	if p.null() {
		return
	}
	s, escaped := p.quoted()
	if escaped {
		s = p.unescape(s)
	}
	*into = s
}

// quoted reads a string and returns it as it is written.
func (p *scanner) quoted() (s string, escaped bool) {
	p.expect(`"`)
	for from := p.i; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return p.s[from : p.i-1], escaped
		case c == '\\':
			escaped = true
			p.i++
		case c < ' ':
			p.fail()
		}
	}
	p.fail()
	return "", false
}

// unescape replaces \" and \\; others are failed.
func (p *scanner) unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; s[i] != '"' && s[i] != '\\' {
				p.fail()
				return ""
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (p *scanner) bool() bool {
	is := p.i+4 <= len(p.s) && p.s[p.i:p.i+4] == "true"
	if is {
		p.i += 4
	} else {
		p.expect("false")
	}
	return is
}

// number reads an integer of at most 17 digits.
func (p *scanner) number() (n int64) {
	negative := p.take('-')
	from := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' && p.i-from < 18 {
		n = 10*n + int64(p.s[p.i]-'0')
		p.i++
	}
	if digits := p.i - from; digits == 0 || digits > 17 || digits > 1 && p.s[from] == '0' {
		p.fail()
	}
	if negative {
		n = -n
	}
	return n
}

func (p *scanner) figure() *int64 {
	if p.null() {
		return nil
	}
	if len(p.figures) == cap(p.figures) {
		return new(p.number())
	}
	p.figures = append(p.figures, p.number())
	return &p.figures[len(p.figures)-1]
}

// skip passes over an object without validating it.
func (p *scanner) skip() {
	for depth := 0; p.i < len(p.s); {
		switch p.s[p.i] {
		case '"':
			p.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if p.i++; depth == 0 {
			return
		}
	}
	p.fail()
}

func (p *scanner) answer(a *Answer) {
	p.object(func(name string) {
		switch name {
		case "allowed":
			a.Allowed, p.decided = p.bool(), true
		case "status":
			a.Status = int(p.number())
		case "retry_after_s":
			a.RetryAfterS = p.figure()
		case "delay_ms":
			a.DelayMS = p.number()
		case "degraded":
			p.text(&a.Degraded)
		case "rule":
			p.text(&a.Rule)
		case "soft":
			a.Soft = p.bool()
		case "elastic":
			a.Elastic = p.bool()
		case "shed":
			a.Shed = p.bool()
		case "overloaded":
			a.Overloaded = p.bool()
		case "replayed":
			a.Replayed = p.bool()
		case "lease":
			p.text(&a.Lease)
		case "reservation":
			p.text(&a.Reservation)
		case "expires_in_ms":
			a.ExpiresInMS = p.number()
		case "granted":
			a.Granted = p.number()
		case "spend_within_ms":
			a.SpendWithinMS = p.number()
		case "shrinks":
			a.Shrinks = p.bool()
		case "limits":
			p.limitAnswers(a)
		case "headers":
			if a.Headers != nil { // twice
				p.fail()
			}
			a.Headers = make(map[string]string, 8)
			p.object(func(name string) {
				var value string
				p.text(&value)
				a.Headers[name] = value
			})
		case "body":
			from := p.i
			p.skip()
			if a.Body = json.RawMessage(p.s[from:p.i]); !json.Valid(a.Body) {
				p.fail()
			}
		default: // the members of a reservation, a deferral or a refund are rare
			p.shown(name, &a.Figures)
		}
	})
}

func (p *scanner) limitAnswers(a *Answer) {
	if a.Limits != nil { // twice
		p.fail()
	}
	a.Limits = p.limits
	p.expect("[")
	if p.take(']') {
		return
	}
	for more := true; more && !p.failed; more = p.take(',') {
		a.Limits = append(a.Limits, LimitAnswer{})
		l := &a.Limits[len(a.Limits)-1]
		p.object(func(name string) {
			switch name {
			case "rule":
				p.text(&l.Rule)
			case "key":
				p.text(&l.Key)
			case "allowed":
				l.Allowed = p.bool()
			case "mode":
				p.text(&l.Mode)
			case "overloaded":
				l.Overloaded = p.bool()
			case "condition_failed":
				l.ConditionFailed = p.bool()
			case "degraded":
				p.text(&l.Degraded)
			default:
				p.shown(name, &l.Figures)
			}
		})
	}
	p.expect("]")
}

func (p *scanner) shown(name string, f *Figures) {
	switch name {
	case "limit":
		f.Limit = p.figure()
	case "burst":
		f.Burst = p.figure()
	case "remaining":
		f.Remaining = p.figure()
	case "used":
		f.Used = p.figure()
	case "reset_ms":
		f.ResetMS = p.figure()
	case "retry_after_ms":
		f.RetryAfterMS = p.figure()
	case "ban_ms":
		f.BanMS = p.figure()
	default:
		p.fail()
	}
}
