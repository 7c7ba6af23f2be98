package database

import (
	"encoding/json"

	"sluice/internal/access"
	"sluice/rules"
)

// ruleRow is a row of rules.
type ruleRow struct {
	ID          int64  `gorm:"column:id;primaryKey;autoIncrement"`
	Name        string `gorm:"column:name"`
	Description string `gorm:"column:description"`
	Owner       *string
	Scope       string `gorm:"column:scope"`
	Route       *string
	Method      *string
	Algorithm   string
	LimitCount  int64 `gorm:"column:limit_count"`
	WindowMS    int64 `gorm:"column:window_ms"`
	Burst       *int64
	Align       *string
	AnchorMS    *int64 `gorm:"column:anchor_ms"`
	Buckets     *int64
	WeightField *string `gorm:"column:weight_field"`
	Throttle    string
	SoftPercent *int64   `gorm:"column:soft_percent"`
	Policies    document `gorm:"column:policies"`
	Mode        string
	FailMode    string `gorm:"column:fail_mode"`
	IsActive    bool   `gorm:"column:is_active"`
	Version     int64
	Seq         int64   // the version of the rules that wrote the row
	CreatedAt   rowTime `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt   rowTime `gorm:"column:updated_at;autoUpdateTime:false"`
	Former      *string // JSON of rules.Former
	Descriptor  *string // as of descriptorOf
}

// TableName implements gorm's Tabler.
func (ruleRow) TableName() string { return "rules" }

// document is a column of JSON.
type document string

func rowOf(r *rules.Rule) (ruleRow, error) {
	policies, err := r.MarshalPolicies()
	return ruleRow{
		ID: r.ID, Name: r.Name, Description: r.Description, Owner: r.Owner, Scope: r.Scope, Route: r.Route,
		Method: r.Method, Algorithm: r.Algorithm, LimitCount: r.Limit, WindowMS: r.WindowMS, Burst: r.Burst,
		Align: r.Align, AnchorMS: r.AnchorMS, Buckets: r.Buckets, WeightField: r.WeightField, Throttle: r.Throttle,
		SoftPercent: r.SoftPercent, Policies: document(policies), Mode: r.Mode, FailMode: r.FailMode, IsActive: r.IsActive,
		Version: r.Version, CreatedAt: newRowTime(r.CreatedAt), UpdatedAt: newRowTime(r.UpdatedAt),
		Descriptor: descriptorOf(r),
	}, err
}

// rule converts the row. Policies that were damaged by hand become values that validation refuses: the rule is then
// listed, but the set does not compile.
func (row *ruleRow) rule() rules.Rule {
	r := rules.Rule{
		ID: row.ID, Name: row.Name, Description: row.Description, Owner: row.Owner, Scope: row.Scope, Route: row.Route,
		Method:    row.Method,
		Algorithm: row.Algorithm, Limit: row.LimitCount, WindowMS: row.WindowMS, Burst: row.Burst, Align: row.Align,
		AnchorMS: row.AnchorMS, Buckets: row.Buckets, WeightField: row.WeightField, Throttle: row.Throttle,
		SoftPercent: row.SoftPercent, Mode: row.Mode, FailMode: row.FailMode, IsActive: row.IsActive,
		Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
	}
	_ = r.UnmarshalPolicies([]byte(row.Policies)) // validation says what is wrong
	if row.Former != nil && json.Unmarshal([]byte(*row.Former), &r.Former) != nil {
		r.Former = nil // damaged by hand
	}
	return r
}

// setFormer stores what limited the rule before an edit at an instant.
func (row *ruleRow) setFormer(was, is *rules.Rule, at rowTime) error {
	former := rules.FormerAfter(was, is, at.Time)
	if former == nil {
		return nil
	}
	text, err := json.Marshal(former)
	stored := string(text)
	row.Former = &stored
	return err
}

func rulesOf(rows []ruleRow) []rules.Rule {
	rs := make([]rules.Rule, len(rows))
	for i := range rows {
		rs[i] = rows[i].rule()
	}
	return rs
}

// revisionRow is a row of rule_revisions. Rule is JSON, kept as text so that it
// fits both dialects.
type revisionRow struct {
	RuleID    int64   `gorm:"column:rule_id;primaryKey;autoIncrement:false"`
	Version   int64   `gorm:"column:version;primaryKey;autoIncrement:false"`
	Action    string  `gorm:"column:action"`
	ActorKind string  `gorm:"column:actor_kind"`
	ActorName string  `gorm:"column:actor_name"`
	At        rowTime `gorm:"column:at"`
	Rule      string  `gorm:"column:rule"`
	Reason    string  `gorm:"column:reason"`
	Bulk      *int64  `gorm:"column:bulk"` // the seq of an edit of many rules
}

// TableName implements gorm's Tabler.
func (revisionRow) TableName() string { return "rule_revisions" }

// revision converts the row, without Changes. A rule that was damaged by hand becomes one with only its id and
// version.
func (row *revisionRow) revision() rules.Revision {
	rev := rules.Revision{
		Version: row.Version, Action: row.Action, At: row.At.Time,
		Actor: rules.Actor{Kind: row.ActorKind, Name: row.ActorName}, Reason: row.Reason,
	}
	if err := json.Unmarshal([]byte(row.Rule), &rev.Rule); err != nil {
		rev.Rule = rules.Rule{ID: row.RuleID, Version: row.Version}
		return rev
	}
	rev.Rule.Normalize()
	return rev
}

// auditRow is a row of audit_log.
type auditRow struct {
	ID          int64   `gorm:"column:id;primaryKey;autoIncrement"`
	At          rowTime `gorm:"column:at"`
	ActorKind   string  `gorm:"column:actor_kind"`
	ActorName   string  `gorm:"column:actor_name"`
	Action      string  `gorm:"column:action"`
	SubjectKind string  `gorm:"column:subject_kind"`
	SubjectID   int64   `gorm:"column:subject_id"`
	SubjectName string  `gorm:"column:subject_name"`
	Details     string  `gorm:"column:details"`
}

// TableName implements gorm's Tabler.
func (auditRow) TableName() string { return "audit_log" }

// tokenRow is a row of tokens.
type tokenRow struct {
	ID        int64    `gorm:"column:id;primaryKey;autoIncrement"`
	Name      string   `gorm:"column:name"`
	Hash      []byte   `gorm:"column:hash"`
	Scopes    string   `gorm:"column:scopes"`
	CreatedBy string   `gorm:"column:created_by"`
	CreatedAt rowTime  `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt *rowTime `gorm:"column:expires_at"`
	RevokedAt *rowTime `gorm:"column:revoked_at"`
	// ReplacedAt is when the token was rotated.
	ReplacedAt *rowTime `gorm:"column:replaced_at"`
}

// TableName implements gorm's Tabler.
func (tokenRow) TableName() string { return "tokens" }

// token converts the row. Unknown scopes permit nothing.
func (row *tokenRow) token() access.Token {
	t := access.Token{
		ID: row.ID, Name: row.Name, CreatedBy: row.CreatedBy,
		CreatedAt: row.CreatedAt.Time, ExpiresAt: row.ExpiresAt.optional(), RevokedAt: row.RevokedAt.optional(),
		ReplacedAt: row.ReplacedAt.optional(),
	}
	copy(t.Hash[:], row.Hash)
	if scopes, err := access.ParseScopes(row.Scopes); err == nil {
		t.Scopes = scopes
	}
	return t
}
