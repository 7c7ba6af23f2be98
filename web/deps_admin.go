package web

import (
	"context"
	"errors"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/view"
)

// Admin is what the pages of people, tokens, the audit log, import and settings
// need. Every field without a remark must be given.
type Admin struct {
	People   People
	Tokens   Tokens
	Log      AuditLog
	Transfer Transfer
	// Settings is what this node runs with, without secrets.
	Settings func() []SettingGroup
	// Changed is called after a change of tokens, as Deps.Changed is after one of
	// rules.
	Changed func(ctx context.Context) bool
}

func (a *Admin) check() error {
	if a.People == nil || a.Tokens == nil || a.Log == nil || a.Transfer == nil || a.Settings == nil || a.Changed == nil {
		return errors.New("web: every field of Admin is required")
	}
	return nil
}

// SettingGroup are the settings of one area.
type SettingGroup = view.SettingGroup

// Setting is one of them as it is in force, a secret only as whether there is one.
type Setting = view.Setting

// People looks after accounts. Errors are those of Users, or wrap
// access.ErrLastAdmin or rules.ErrStale.
type People interface {
	ListUsers(ctx context.Context) ([]access.User, error)
	// UpdateUser writes role, password hash and disabled, and ends the account's
	// sessions if any differs.
	UpdateUser(ctx context.Context, actor rules.Actor, u access.User) (access.User, error)
	// EndSessions signs an account out everywhere.
	EndSessions(ctx context.Context, actor rules.Actor, id int64) (access.User, error)
	// ListSessions gives the stored sessions of everyone.
	ListSessions(ctx context.Context) ([]access.Session, error)
}

// Tokens looks after API tokens. Errors wrap rules.ErrNotFound, ErrNameTaken or
// ErrUnavailable, or are a *rules.ValidationError.
type Tokens interface {
	ListTokens(ctx context.Context) ([]access.Token, error)
	CreateToken(ctx context.Context, actor rules.Actor, t access.Token) (access.Token, error)
	RevokeToken(ctx context.Context, actor rules.Actor, id int64) error
}

// AuditLog is who changed what. Errors wrap rules.ErrUnavailable.
type AuditLog interface {
	ListAudit(ctx context.Context, q audit.Query) ([]audit.Entry, error)
}

// Transfer moves all rules and pools. Errors wrap rules.ErrStale, ErrNameTaken,
// ErrPoolUsed or ErrUnavailable, or are a *rules.ValidationError.
type Transfer interface {
	LoadAllRules(ctx context.Context) (rules.Source, error)
	// ApplyPlan carries out all of a plan or nothing.
	ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error
}
