package api

import (
	"strconv"
	"strings"
	"time"

	"sluice/api/reply"
	"sluice/rules"
)

// composite sets tiers, schedule, calendar, defer or candidate as a whole; a
// patch replaces it as a whole too, because what its parts mean depends on each
// other.
func (in *ruleInput) composite(field string, v *jsonValue) {
	in.errs = append(in.errs, rules.SetComposite(in.rule, field, appendJSON(nil, v))...)
}

// window sets window_ms, which a calendar stands in for.
func (in *ruleInput) window(field string, v *jsonValue) {
	if v.kind == jsonNull {
		in.rule.WindowMS = 0 // which Normalize fills in, or Validate refuses
		return
	}
	in.integer(field, v, &in.rule.WindowMS)
}

func hasCalendar(v *jsonValue) bool {
	c := v.member("calendar")
	return c != nil && c.kind != jsonNull
}

func (in *ruleInput) optionalInstant(field string, v *jsonValue, dst **time.Time) {
	switch v.kind {
	case jsonNull:
		*dst = nil
	case jsonString:
		t, err := rules.ParseInstant(v.text)
		if err != nil {
			in.wrong(field, "%s", err)
			return
		}
		*dst = &t
	default:
		in.wrong(field, "must be a string or null")
	}
}

// topField is the member of the rule that a path such as tiers.free.limit leads
// into.
func topField(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// appendJSON writes a tree as JSON again, numbers as they were written.
func appendJSON(b []byte, v *jsonValue) []byte {
	switch v.kind {
	case jsonBool:
		return strconv.AppendBool(b, v.truth)
	case jsonNumber:
		return append(b, v.text...)
	case jsonString:
		return reply.AppendString(b, v.text)
	case jsonArray:
		b = append(b, '[')
		for i := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, &v.items[i])
		}
		return append(b, ']')
	case jsonObject:
		b = append(b, '{')
		for i, name := range v.names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(reply.AppendString(b, name), ':')
			b = appendJSON(b, &v.members[i])
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}
