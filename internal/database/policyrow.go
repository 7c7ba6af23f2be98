package database

import (
	"encoding/json"

	"sluice/rules"
)

// policyColumns are the policy fields of a rule's row. The composite ones are
// JSON, kept as text so that it fits both dialects.
type policyColumns struct {
	ElasticPercent  *int64  `gorm:"column:elastic_percent"`
	Pool            *string `gorm:"column:pool"`
	Priority        *string `gorm:"column:priority"`
	Tiers           *string `gorm:"column:tiers"`
	Schedule        *string `gorm:"column:schedule"`
	Calendar        *string `gorm:"column:calendar"`
	ActiveFrom      *stamp  `gorm:"column:active_from"`
	ActiveUntil     *stamp  `gorm:"column:active_until"`
	When            *string `gorm:"column:when_expr"`
	ChargeOn        string  `gorm:"column:charge_on"`
	OverLimit       string  `gorm:"column:over_limit"`
	Defer           *string `gorm:"column:defer_bounds"`
	Candidate       *string `gorm:"column:candidate"`
	RetryJitterMS   *int64  `gorm:"column:retry_jitter_ms"`
	HotKeys         string  `gorm:"column:hot_keys"`
	HotRaisePercent *int64  `gorm:"column:hot_raise_percent"`
}

func policyOf(r *rules.Rule) policyColumns {
	c := policyColumns{
		ElasticPercent: r.ElasticPercent, Pool: r.Pool, Priority: r.Priority,
		ActiveFrom: optionalStamp(r.ActiveFrom), ActiveUntil: optionalStamp(r.ActiveUntil), When: r.When,
		ChargeOn: r.ChargeOn, OverLimit: r.OverLimit, RetryJitterMS: r.RetryJitterMS,
		HotKeys: r.HotKeys, HotRaisePercent: r.HotRaisePercent,
		Schedule: jsonColumn(r.Schedule), Calendar: jsonColumn(r.Calendar),
		Defer: jsonColumn(r.Defer), Candidate: jsonColumn(r.Candidate),
	}
	if len(r.Tiers) > 0 {
		c.Tiers = jsonColumn(&r.Tiers)
	}
	return c
}

// into puts the columns into a rule. A composite that was damaged by hand comes
// out as one that validation refuses: then the rule is listed, and the set does
// not compile, instead of the rule being in force without what it said.
func (c *policyColumns) into(r *rules.Rule) {
	r.ElasticPercent, r.Pool, r.Priority = c.ElasticPercent, c.Pool, c.Priority
	r.ActiveFrom, r.ActiveUntil, r.When = c.ActiveFrom.optional(), c.ActiveUntil.optional(), c.When
	r.ChargeOn, r.OverLimit, r.HotKeys = c.ChargeOn, c.OverLimit, c.HotKeys
	r.RetryJitterMS, r.HotRaisePercent = c.RetryJitterMS, c.HotRaisePercent
	if tiers := fromJSON(c.Tiers, map[string]rules.TierLimit{"": {}}); tiers != nil {
		r.Tiers = *tiers
	}
	r.Schedule = fromJSON(c.Schedule, rules.Schedule{})
	r.Calendar = fromJSON(c.Calendar, rules.Calendar{})
	r.Defer = fromJSON(c.Defer, rules.Defer{MaxItems: -1})
	r.Candidate = fromJSON(c.Candidate, rules.Candidate{})
}

func jsonColumn[T any](v *T) *string {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil { // impossible: the types hold only text and numbers
		return nil
	}
	s := string(text)
	return &s
}

// fromJSON reads a column; damaged stands for what cannot be read.
func fromJSON[T any](text *string, damaged T) *T {
	if text == nil {
		return nil
	}
	v := new(T)
	if err := json.Unmarshal([]byte(*text), v); err != nil {
		return &damaged
	}
	return v
}
