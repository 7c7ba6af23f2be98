// Package people manages the users of the console and the API: accounts and their sessions, invite links, API tokens,
// and the audit log, by which changes are undone.
package people

import (
	"context"
	"net/http"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/kit"
)

// Deps is what the area needs besides the kit. Every field is required.
type Deps struct {
	People People
	Tokens Tokens
	Audit  AuditLog
	// TokensChanged is called after a change of tokens, like kit.Deps.Changed after a change of rules.
	TokensChanged func(ctx context.Context) bool
}

// People manages accounts. It returns the same errors as kit.Users, and errors that wrap access.ErrLastAdmin or
// rules.ErrStale.
type People interface {
	ListUsers(ctx context.Context) ([]access.User, error)
	// UpdateUser writes role, password hash and disabled, and ends the account's sessions if any of them differs.
	UpdateUser(ctx context.Context, actor rules.Actor, u access.User) (access.User, error)
	// EndSessions signs an account out everywhere.
	EndSessions(ctx context.Context, actor rules.Actor, id int64) (access.User, error)
	// ListSessions returns the stored sessions of all accounts.
	ListSessions(ctx context.Context) ([]access.Session, error)
}

// Tokens manages API tokens. Errors wrap rules.ErrNotFound, ErrNameTaken or
// ErrUnavailable, or are a *field.ValidationError.
type Tokens interface {
	ListTokens(ctx context.Context) ([]access.Token, error)
	CreateToken(ctx context.Context, actor rules.Actor, t access.Token) (access.Token, error)
	// RotateToken replaces a token by a new one with a hash, and returns both. The old one ends after the overlap. Errors
	// may also be access.ErrNotRotatable.
	RotateToken(ctx context.Context, actor rules.Actor, id int64, hash [32]byte, overlap time.Duration) (old,
		replacement access.Token, err error)
	RevokeToken(ctx context.Context, actor rules.Actor, id int64) error
}

// AuditLog lists audit entries. Errors wrap rules.ErrUnavailable.
type AuditLog interface {
	ListAudit(ctx context.Context, q audit.Query) ([]audit.Entry, error)
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

const (
	pathPerson  = kit.PathPeople + "/:id"
	pathInvite  = "/console/invite"
	pathAccount = "/console/account"
	pathTokens  = "/console/tokens"
	pathUndoAll = kit.PathAudit + "/:id/undo"
)

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor, admin = access.RoleViewer, access.RoleEditor, access.RoleAdmin
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathPeople, Role: viewer, Handle: p.listPeople},
		{Method: http.MethodGet, Path: kit.PathPeople + "/new", Role: admin, Form: true, Handle: p.newPerson},
		{Method: http.MethodPost, Path: kit.PathPeople + "/new", Role: admin, Reauth: creates, Accounts: true,
			Handle: kit.Posted(p.createPerson)},
		{Method: http.MethodGet, Path: pathPerson, Role: admin, Handle: p.person},
		{Method: http.MethodPost, Path: pathPerson + "/role", Role: admin, Reauth: p.changesRole, Accounts: true,
			Handle: kit.Posted(p.changeRole)},
		{Method: http.MethodPost, Path: pathPerson + "/state", Role: admin, Reauth: p.changesState, Accounts: true,
			Handle: kit.Posted(p.changeState)},
		{Method: http.MethodPost, Path: pathPerson + "/link", Role: admin,
			Reauth: p.doesTo("create an invite link for the account "), Accounts: true, Handle: p.newLink},
		{Method: http.MethodPost, Path: pathPerson + "/sign-out", Role: admin,
			Reauth: p.doesTo("sign out the account "), Accounts: true, Handle: p.signOutPerson},

		{Method: http.MethodGet, Path: pathInvite, Form: true, Handle: p.inviteForm},
		{Method: http.MethodPost, Path: pathInvite, Handle: kit.Posted(p.acceptInvite)},
		{Method: http.MethodGet, Path: pathAccount, Role: viewer, Handle: p.account},
		{Method: http.MethodPost, Path: pathAccount + "/password", Role: viewer, Accounts: true,
			Handle: kit.Posted(p.changePassword)},
		{Method: http.MethodPost, Path: pathAccount + "/sessions", Role: viewer, Accounts: true,
			Handle: kit.Posted(p.endSessions)},

		{Method: http.MethodGet, Path: pathTokens, Role: viewer, Handle: p.listTokens},
		{Method: http.MethodGet, Path: pathTokens + "/new", Role: admin, Form: true, Handle: p.newToken},
		{Method: http.MethodPost, Path: pathTokens + "/new", Role: admin, Reauth: createsToken,
			Handle: kit.Posted(p.createToken)},
		{Method: http.MethodGet, Path: pathTokens + "/:id/rotate", Role: admin, Form: true, Handle: p.rotateForm},
		{Method: http.MethodPost, Path: pathTokens + "/:id/rotate", Role: admin, Reauth: p.doesToToken("rotate"),
			Handle: kit.Posted(p.rotateToken)},
		{Method: http.MethodPost, Path: pathTokens + "/:id/revoke", Role: admin, Reauth: p.doesToToken("revoke"),
			Handle: p.revokeToken},

		{Method: http.MethodGet, Path: kit.PathAudit, Role: viewer, Handle: p.listAudit},
		{Method: http.MethodGet, Path: kit.PathAudit + "/download", Role: admin, Handle: p.downloadAudit},
		{Method: http.MethodGet, Path: pathUndoAll, Role: editor, Form: true, Handle: p.askUndoAll},
		{Method: http.MethodPost, Path: pathUndoAll, Role: editor, Handle: p.undoAll},
		{Method: http.MethodPost, Path: "/console/undo", Role: editor, Handle: kit.Posted(p.undo)},
	}
}
