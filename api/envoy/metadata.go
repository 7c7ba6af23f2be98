package envoy

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"sluice/api/decide"
)

// A google.protobuf.Struct has entries of a key and a Value. These functions append one entry each.

func textEntry(b []byte, key, text string) []byte {
	b, entry, value := beginEntry(b, key)
	// An empty text is written too: a Value without a kind is not valid.
	b = append(protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.BytesType), uint64(len(text))), text...)
	return end(end(b, value), entry)
}

func numberEntry(b []byte, key string, n int64) []byte {
	b, entry, value := beginEntry(b, key)
	b = binary.LittleEndian.AppendUint64(protowire.AppendTag(b, 2, protowire.Fixed64Type), math.Float64bits(float64(n)))
	return end(end(b, value), entry)
}

func boolEntry(b []byte, key string, v bool) []byte {
	b, entry, value := beginEntry(b, key)
	b = protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.VarintType), protowire.EncodeBool(v))
	return end(end(b, value), entry)
}

// beginEntry begins an entry and its value.
func beginEntry(b []byte, key string) (_ []byte, entry, value int) {
	b, entry = begin(b, 1)
	b, value = begin(appendText(b, 1, key), 2)
	return b, entry, value
}

// metadata appends a field with the dynamic metadata of an answer. domain is "" for an answer by a profile only.
func (o *response) metadata(field protowire.Number, a *decide.Answer, domain string,
	statuses []decide.DescriptorStatus) {
	b, at := begin(o.b, field)
	if domain != "" {
		b = textEntry(b, "domain", domain)
	}
	if a.Strictest >= 0 {
		b = textEntry(b, "rule", a.Limits[a.Strictest].Name())
	}
	if len(a.Limits) > 0 {
		b = limitsEntry(b, a)
	}
	if !a.Allowed() {
		b = namesEntry(b, "denied_by", a, func(la *decide.LimitAnswer) bool {
			return !la.Shadow && !la.Decision.Allowed && !la.Overloaded
		})
	}
	b = namesEntry(b, "shadow", a, func(la *decide.LimitAnswer) bool {
		return la.Shadow && !la.Candidate && !la.Decision.Allowed
	})
	if a.Degraded != "" {
		b = textEntry(b, "degraded", a.Degraded)
	}
	if a.Verdict == decide.Overloaded {
		b = boolEntry(b, "overloaded", true)
	}
	o.b = end(passedEntry(b, statuses), at)
}

// namesEntry appends the names of some limits, separated by commas. It appends nothing if there is none.
func namesEntry(b []byte, key string, a *decide.Answer, has func(*decide.LimitAnswer) bool) []byte {
	var entry, value, text int
	found := false
	for i := range a.Limits {
		la := &a.Limits[i]
		if !has(la) {
			continue
		}
		if !found {
			b, entry, value = beginEntry(b, key)
			b, text = begin(b, 3)
		} else {
			b = append(b, ',')
		}
		found = true
		b = append(b, la.Name()...)
	}
	if !found {
		return b
	}
	return end(end(end(b, text), value), entry)
}

// limitsEntry appends the list of limits. Keys are left out: they have values that clients sent.
func limitsEntry(b []byte, a *decide.Answer) []byte {
	b, entry, value := beginEntry(b, "limits")
	b, list := begin(b, 6)
	for i := range a.Limits {
		la := &a.Limits[i]
		var one, object int
		b, one = begin(b, 1)
		b, object = begin(b, 5)
		b = textEntry(b, "rule", la.Name())
		b = textEntry(b, "mode", la.Mode())
		b = boolEntry(b, "allowed", la.Decision.Allowed)
		limit, _, _ := la.Decision.InForce(la.Limit.Algorithm)
		b = numberEntry(b, "limit", limit)
		if la.Known {
			b = numberEntry(b, "remaining", la.Decision.Remaining)
			b = numberEntry(b, "used", la.Decision.Used)
			b = numberEntry(b, "reset_ms", la.Decision.Reset)
			b = numberEntry(b, "retry_after_ms", la.Decision.RetryAfter)
		}
		if la.Ban > 0 {
			b = numberEntry(b, "ban_ms", la.Ban)
		}
		if la.Shed != "" {
			b = boolEntry(b, "shed", true)
		}
		if la.Overloaded {
			b = boolEntry(b, "overloaded", true)
		}
		if la.ConditionFailed {
			b = boolEntry(b, "condition_failed", true)
		}
		if la.Degraded != "" {
			b = textEntry(b, "degraded", la.Degraded)
		}
		b = end(end(b, object), one)
	}
	return end(end(end(b, list), value), entry)
}

// passedEntry appends the metadata of the rules that let the call pass, without those that another rule replaces. If
// rules share a name, the last one counts.
func passedEntry(b []byte, statuses []decide.DescriptorStatus) []byte {
	var entry, value, object int
	found := false
	for i := range statuses {
		st := &statuses[i]
		if st.Over || st.Full || st.State == decide.StateReplaced || st.Rule == nil || len(st.Rule.Rule.Metadata) == 0 {
			continue
		}
		if !found {
			b, entry, value = beginEntry(b, "metadata")
			b, object = begin(b, 5)
		}
		found = true
		for name, text := range st.Rule.Rule.Metadata {
			b = textEntry(b, name, text)
		}
	}
	if !found {
		return b
	}
	return end(end(end(b, object), value), entry)
}
