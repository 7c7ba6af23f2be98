package rules

import (
	"strconv"
	"strings"

	"sluice/rules/field"
	"sluice/rules/quantity"
)

// Words of Rule.Counts.
const (
	CountsRequests    = "requests"
	CountsTokens      = "tokens"
	CountsMoney       = "money"
	CountsConcurrency = "concurrency"
)

// MaxUnit is the longest unit of a rule, in characters, and MaxUnitScale its largest scale.
const (
	MaxUnit            = 16
	MaxUnitScale int64 = 1_000_000_000_000
)

func validateUnit(r *Rule, ps *field.Problems) {
	slots, counts := r.Traits().Slots, field.ValueOf(r.Counts)
	switch {
	case counts == "":
	case slots && counts != CountsConcurrency:
		ps.Add("counts", "must be concurrency or left out for concurrency")
	case !slots && counts == CountsConcurrency:
		ps.Add("counts", "must not be concurrency for %s", r.Algorithm)
	}
	if r.Unit != nil && strings.ContainsAny(*r.Unit, "{}") {
		ps.Add("unit", "must not contain braces")
	}
	ps.Belongs("unit_scale", r.UnitScale != nil, r.Unit != nil, false, "a unit")
	if n := r.UnitScale; n != nil && *n > 0 && strings.Trim(strconv.FormatInt(*n, 10), "0") != "1" {
		ps.Add("unit_scale", "must be a power of ten")
	}
}

// Kind is what a unit of the rule is, one of the words of Counts: without Counts, concurrency for that algorithm,
// requests, or "" if the weight is a field of the request. A nil rule counts requests.
func (r *Rule) Kind() string {
	switch {
	case r == nil:
		return CountsRequests
	case r.Counts != nil:
		return *r.Counts
	case r.Traits().Slots:
		return CountsConcurrency
	case r.WeightField != nil:
		return ""
	}
	return CountsRequests
}

// Noun is what people read amounts in: the unit, or tokens if the rule counts them; "" for neither.
func (r *Rule) Noun() string {
	switch {
	case r == nil:
	case r.Unit != nil:
		return *r.Unit
	case field.ValueOf(r.Counts) == CountsTokens:
		return CountsTokens
	}
	return ""
}

// AmountWords returns a number of units that is not negative as people read it: "100", "5,000 tokens", "2.5 $".
func (r *Rule) AmountWords(n int64) string {
	noun := r.Noun()
	if noun == "" {
		return quantity.Amount(n)
	}
	scale := int64(1)
	if r.UnitScale != nil {
		scale = *r.UnitScale
	}
	s := quantity.Amount(n / scale)
	if rest := n % scale; rest != 0 { // as many digits as the scale has zeros
		s += "." + strings.TrimRight(strconv.FormatInt(scale+rest, 10)[1:], "0")
	}
	return s + " " + noun
}
