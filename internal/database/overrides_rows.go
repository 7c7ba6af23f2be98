package database

import (
	"encoding/json"

	"sluice/rules"
)

// overrideRow is a row of rule_overrides.
type overrideRow struct {
	ID         int64    `gorm:"column:id;primaryKey;autoIncrement"`
	RuleID     int64    `gorm:"column:rule_id"`
	Key        string   `gorm:"column:key"`
	MatchKey   string   `gorm:"column:match_key"`
	IsPrefix   bool     `gorm:"column:is_prefix"`
	LimitCount *int64   `gorm:"column:limit_count"`
	Burst      *int64   `gorm:"column:burst"`
	Unlimited  bool     `gorm:"column:unlimited"`
	Blocked    bool     `gorm:"column:blocked"`
	Calendar   *string  `gorm:"column:calendar"`
	Reason     string   `gorm:"column:reason"`
	ExpiresAt  *rowTime `gorm:"column:expires_at"`
	Version    int64    `gorm:"column:version"`
	Seq        int64    `gorm:"column:seq"`
	CreatedAt  rowTime  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt  rowTime  `gorm:"column:updated_at;autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (overrideRow) TableName() string { return "rule_overrides" }

func overrideRowOf(o *rules.Override) overrideRow {
	return overrideRow{
		ID: o.ID, RuleID: o.RuleID, Key: o.Key, MatchKey: o.Match, IsPrefix: o.Prefix, LimitCount: o.Limit, Burst: o.Burst,
		Unlimited: o.Unlimited, Blocked: o.Blocked, Calendar: storedCalendar(o), Reason: o.Reason,
		ExpiresAt: optionalRowTime(o.ExpiresAt),
		Version:   o.Version, CreatedAt: newRowTime(o.CreatedAt), UpdatedAt: newRowTime(o.UpdatedAt),
	}
}

func (row *overrideRow) override() rules.Override {
	o := rules.Override{
		ID: row.ID, RuleID: row.RuleID, Key: row.Key, Match: row.MatchKey, Prefix: row.IsPrefix, Limit: row.LimitCount,
		Burst:     row.Burst,
		Unlimited: row.Unlimited, Blocked: row.Blocked, Reason: row.Reason, ExpiresAt: row.ExpiresAt.optional(),
		Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
	}
	loadCalendar(row.Calendar, &o)
	return o
}

// calendarColumn is the JSON value of the column calendar.
type calendarColumn struct {
	Calendar *rules.OverrideCalendar `json:"calendar,omitempty"`
	First    rules.FirstPeriod       `json:"first,omitzero"`
}

// storedCalendar returns what the column calendar of an override holds, nil for NULL.
func storedCalendar(o *rules.Override) *string {
	if o.Calendar == nil && o.First == (rules.FirstPeriod{}) {
		return nil
	}
	text, _ := json.Marshal(calendarColumn{o.Calendar, o.First}) // of texts and numbers, so that it does not fail
	return new(string(text))
}

// loadCalendar sets the members of an override that the column calendar holds. One that someone has damaged by hand
// replaces nothing.
func loadCalendar(column *string, o *rules.Override) {
	var c calendarColumn
	if column != nil && json.Unmarshal([]byte(*column), &c) == nil {
		o.Calendar, o.First = c.Calendar, c.First
	}
}

// tombstoneRow is a row of override_tombstones.
type tombstoneRow struct {
	Seq      int64   `gorm:"column:seq"`
	RuleID   int64   `gorm:"column:rule_id"`
	MatchKey string  `gorm:"column:match_key"`
	IsPrefix bool    `gorm:"column:is_prefix"`
	At       rowTime `gorm:"column:at"`
}

// TableName implements gorm's Tabler.
func (tombstoneRow) TableName() string { return "override_tombstones" }
