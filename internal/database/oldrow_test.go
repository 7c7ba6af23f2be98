package database

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"

	"sluice/rules"
)

// oldColumns held a policy each up to step 7.
var oldColumns = []string{
	"elastic_percent", "pool", "priority", "tiers", "schedule", "calendar", "active_from", "active_until",
	"when_expr", "charge_on", "over_limit", "defer_bounds", "candidate", "retry_jitter_ms", "hot_keys",
	"hot_raise_percent",
}

// oldRow is a row of rules as builds up to step 7 read and write it.
type oldRow struct {
	ID              int64    `gorm:"column:id;primaryKey;autoIncrement"`
	Name            string   `gorm:"column:name"`
	Description     string   `gorm:"column:description"`
	Scope           string   `gorm:"column:scope"`
	Route           *string  `gorm:"column:route"`
	Method          *string  `gorm:"column:method"`
	Algorithm       string   `gorm:"column:algorithm"`
	LimitCount      int64    `gorm:"column:limit_count"`
	WindowMS        int64    `gorm:"column:window_ms"`
	Burst           *int64   `gorm:"column:burst"`
	Align           *string  `gorm:"column:align"`
	AnchorMS        *int64   `gorm:"column:anchor_ms"`
	Buckets         *int64   `gorm:"column:buckets"`
	WeightField     *string  `gorm:"column:weight_field"`
	Throttle        string   `gorm:"column:throttle"`
	SoftPercent     *int64   `gorm:"column:soft_percent"`
	ElasticPercent  *int64   `gorm:"column:elastic_percent"`
	Pool            *string  `gorm:"column:pool"`
	Priority        *string  `gorm:"column:priority"`
	Tiers           *string  `gorm:"column:tiers"`
	Schedule        *string  `gorm:"column:schedule"`
	Calendar        *string  `gorm:"column:calendar"`
	ActiveFrom      *rowTime `gorm:"column:active_from"`
	ActiveUntil     *rowTime `gorm:"column:active_until"`
	When            *string  `gorm:"column:when_expr"`
	ChargeOn        string   `gorm:"column:charge_on"`
	OverLimit       string   `gorm:"column:over_limit"`
	Defer           *string  `gorm:"column:defer_bounds"`
	Candidate       *string  `gorm:"column:candidate"`
	RetryJitterMS   *int64   `gorm:"column:retry_jitter_ms"`
	HotKeys         string   `gorm:"column:hot_keys"`
	HotRaisePercent *int64   `gorm:"column:hot_raise_percent"`
	Mode            string   `gorm:"column:mode"`
	FailMode        string   `gorm:"column:fail_mode"`
	IsActive        bool     `gorm:"column:is_active"`
	Version         int64    `gorm:"column:version"`
	Seq             int64    `gorm:"column:seq"`
	CreatedAt       rowTime  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt       rowTime  `gorm:"column:updated_at;autoUpdateTime:false"`
}

func (oldRow) TableName() string { return "rules" }

// oldRowOf is the row that such a build writes of a rule.
func oldRowOf(t *testing.T, r *rules.Rule) oldRow {
	t.Helper()
	stored := func(v any) *string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) == "null" {
			return nil
		}
		return ptr(string(text))
	}
	row := oldRow{
		ID: r.ID, Name: r.Name, Description: r.Description, Scope: r.Scope, Route: r.Route, Method: r.Method,
		Algorithm: r.Algorithm, LimitCount: r.Limit, WindowMS: r.WindowMS, Burst: r.Burst, Align: r.Align,
		AnchorMS: r.AnchorMS, Buckets: r.Buckets, WeightField: r.WeightField,
		Throttle: r.Throttle, SoftPercent: r.SoftPercent,
		ElasticPercent: r.ElasticPercent, Pool: r.Pool, Priority: r.Priority, ActiveFrom: optionalRowTime(r.ActiveFrom),
		ActiveUntil: optionalRowTime(r.ActiveUntil), When: r.When, ChargeOn: r.ChargeOn, OverLimit: r.OverLimit,
		RetryJitterMS: r.RetryJitterMS, HotKeys: r.HotKeys, HotRaisePercent: r.HotRaisePercent,
		Tiers: stored(r.Tiers), Schedule: stored(r.Schedule), Calendar: stored(r.Calendar),
		Defer: stored(r.Defer), Candidate: stored(r.Candidate),
		Mode: r.Mode, FailMode: r.FailMode, IsActive: r.IsActive,
		Version: r.Version, CreatedAt: newRowTime(r.CreatedAt), UpdatedAt: newRowTime(r.UpdatedAt),
	}
	return row
}

// rule is how such a build reads the row.
func (row *oldRow) rule() rules.Rule {
	r := rules.Rule{
		ID: row.ID, Name: row.Name, Description: row.Description, Scope: row.Scope, Route: row.Route, Method: row.Method,
		Algorithm: row.Algorithm, Limit: row.LimitCount, WindowMS: row.WindowMS, Burst: row.Burst, Align: row.Align,
		AnchorMS: row.AnchorMS, Buckets: row.Buckets, WeightField: row.WeightField,
		Throttle: row.Throttle, SoftPercent: row.SoftPercent,
		ElasticPercent: row.ElasticPercent, Pool: row.Pool, Priority: row.Priority, ActiveFrom: row.ActiveFrom.optional(),
		ActiveUntil: row.ActiveUntil.optional(), When: row.When, ChargeOn: row.ChargeOn, OverLimit: row.OverLimit,
		RetryJitterMS: row.RetryJitterMS, HotKeys: row.HotKeys, HotRaisePercent: row.HotRaisePercent,
		Span: rules.SpanRegion, Addend: rules.AddendTake, Mode: row.Mode, FailMode: row.FailMode, IsActive: row.IsActive,
		Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
	}
	if tiers := oldJSON(row.Tiers, map[string]rules.TierLimit{"": {}}); tiers != nil {
		r.Tiers = *tiers
	}
	r.Schedule = oldJSON(row.Schedule, rules.Schedule{})
	r.Calendar = oldJSON(row.Calendar, rules.Calendar{})
	r.Defer = oldJSON(row.Defer, rules.Defer{MaxItems: -1})
	r.Candidate = oldJSON(row.Candidate, rules.Candidate{})
	return r
}

// oldJSON reads a column; damaged stands for what cannot be read.
func oldJSON[T any](text *string, damaged T) *T {
	if text == nil {
		return nil
	}
	v := new(T)
	if err := json.Unmarshal([]byte(*text), v); err != nil {
		return &damaged
	}
	return v
}

// oldRules are all rules as such a build reads them.
func oldRules(t *testing.T, d *DB) []rules.Rule {
	t.Helper()
	var rows []oldRow
	if err := d.read.Order("id").Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	list := make([]rules.Rule, len(rows))
	for i := range rows {
		list[i] = rows[i].rule()
	}
	return list
}

// rawOld are the columns themselves, in order of id.
func rawOld(t *testing.T, d *DB) (rows []map[string]any) {
	t.Helper()
	if err := d.read.Table("rules").Select(oldColumns).Order("id").Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	return rows
}

// oldChange is one transaction of a node of such a build on Postgres.
func oldChange(t *testing.T, d *DB, write func(tx *gorm.DB, version int64) error) {
	t.Helper()
	err := d.write.Transaction(func(tx *gorm.DB) error {
		version, err := bump(tx, areaRules)
		if err != nil {
			return err
		}
		return write(tx, version)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// oldInsert and oldUpdate are what such a build does in it, one rule or many.
func oldInsert(t *testing.T, d *DB, rs ...rules.Rule) {
	t.Helper()
	oldChange(t, d, func(tx *gorm.DB, version int64) error {
		rows := make([]oldRow, len(rs))
		for i := range rs {
			rows[i] = oldRowOf(t, &rs[i])
			rows[i].ID, rows[i].Version, rows[i].Seq = 0, 1, version
			rows[i].CreatedAt, rows[i].UpdatedAt = d.rowTimeNow(), d.rowTimeNow()
		}
		return tx.CreateInBatches(rows, insertBatch).Error
	})
}

func oldUpdate(t *testing.T, d *DB, rs ...rules.Rule) {
	t.Helper()
	oldChange(t, d, func(tx *gorm.DB, version int64) error {
		statement := gorm.Statement{DB: tx, Context: t.Context()}
		if err := statement.Parse(&oldRow{}); err != nil {
			return err
		}
		var set []string
		for _, name := range statement.Schema.DBNames {
			if name != "id" && name != "created_at" {
				set = append(set, name+" = n."+name)
			}
		}
		objects := make([]map[string]json.RawMessage, len(rs))
		for i := range rs {
			row := oldRowOf(t, &rs[i])
			row.Version, row.Seq, row.UpdatedAt = rs[i].Version+1, version, d.rowTimeNow()
			objects[i] = map[string]json.RawMessage{}
			for _, f := range statement.Schema.Fields {
				value, _ := f.ValueOf(t.Context(), reflect.ValueOf(&row).Elem())
				text, err := jsonOf(value)
				if err != nil {
					return err
				}
				if text != nil {
					objects[i][f.DBName] = text
				}
			}
		}
		data, err := json.Marshal(objects)
		if err != nil {
			return err
		}
		res := tx.Exec("UPDATE rules SET "+strings.Join(set, ", ")+" FROM json_populate_recordset(NULL::rules, ?::json) AS n"+
			" WHERE rules.id = n.id AND rules.version = n.version - 1", string(data))
		if res.Error == nil && res.RowsAffected != int64(len(rs)) {
			return rules.ErrStale
		}
		return res.Error
	})
}
