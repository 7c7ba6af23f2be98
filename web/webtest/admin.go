package webtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web"
)

// People manages the accounts and sessions of a world.
type People struct{ w *World }

// ListUsers implements people.People.
func (f *People) ListUsers(context.Context) ([]access.User, error) {
	u := f.w.Users
	u.mu.Lock()
	defer u.mu.Unlock()
	list := slices.Clone(u.list)
	slices.SortFunc(list, func(a, b access.User) int { return strings.Compare(a.Name, b.Name) })
	return list, u.Err
}

// UpdateUser implements people.People.
func (f *People) UpdateUser(_ context.Context, _ rules.Actor, want access.User) (access.User, error) {
	return f.w.Users.edit(want.ID, func(u *access.User) error {
		if want.Generation != u.Generation {
			return rules.ErrStale
		}
		if u.Role == access.RoleAdmin && (want.Role != access.RoleAdmin || want.Disabled) && !f.w.Users.otherAdmin(u.ID) {
			return access.ErrLastAdmin
		}
		if u.External() && (u.Role != want.Role || u.PasswordHash != want.PasswordHash) {
			return access.ErrExternal
		}
		if *u != want {
			u.Role, u.PasswordHash, u.Disabled, u.Generation = want.Role, want.PasswordHash, want.Disabled, u.Generation+1
		}
		return nil
	})
}

// EndSessions implements people.People.
func (f *People) EndSessions(_ context.Context, _ rules.Actor, id int64) (access.User, error) {
	return f.w.Users.edit(id, func(u *access.User) error { u.Generation++; return nil })
}

// ListSessions implements people.People.
func (f *People) ListSessions(context.Context) ([]access.Session, error) {
	s := f.w.Sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []access.Session
	for _, one := range s.byToken {
		list = append(list, one)
	}
	return list, s.Err
}

// edit changes one account under the lock.
func (f *Users) edit(id int64, change func(*access.User) error) (access.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return access.User{}, f.Err
	}
	for i := range f.list {
		if f.list[i].ID == id {
			if err := change(&f.list[i]); err != nil {
				return access.User{}, err
			}
			return f.list[i], nil
		}
	}
	return access.User{}, rules.ErrNotFound
}

func (f *Users) otherAdmin(than int64) bool {
	return slices.ContainsFunc(f.list, func(u access.User) bool {
		return u.ID != than && u.Role == access.RoleAdmin &&
			!u.Disabled
	})
}

// Tokens are API tokens in memory, safe for concurrent use.
type Tokens struct {
	mu   sync.Mutex
	List []access.Token
	Err  error
}

func tokens() []access.Token {
	made := func(id int64, name, by string, age time.Duration, scopes ...access.Scope) access.Token {
		return access.Token{ID: id, Name: name, Scopes: scopes, CreatedBy: by, CreatedAt: Now.Add(-age)}
	}
	list := []access.Token{
		made(1, "edge-gateway", "ada", 700*time.Hour, access.ScopeCheck),
		made(2, "ci", "grace", 300*time.Hour, access.ScopeRulesRead, access.ScopeRulesWrite),
		made(3, "prometheus", "ada", 90*time.Hour, access.ScopeAdmin),
		made(4, "old-gateway", "ada", 800*time.Hour, access.ScopeCheck),
		made(5, "trial", "ada", 800*time.Hour, access.ScopeCheck),
	}
	list[1].ExpiresAt = new(Now.Add(60 * 24 * time.Hour))
	list[0].ExpiresAt = new(Now.Add(9 * 24 * time.Hour))
	list[0].LastUse = &access.Use{Token: 1, At: Now.Add(-3 * time.Minute), Endpoint: "check"}
	list[2].ExpiresAt, list[2].ReplacedAt = new(Now.Add(20*time.Hour)), new(Now.Add(-4*time.Hour))
	list[3].RevokedAt = new(Now.Add(-40 * time.Hour))
	list[4].ExpiresAt = new(Now.Add(-20 * time.Hour))
	return list
}

// ListTokens implements people.Tokens.
func (f *Tokens) ListTokens(context.Context) ([]access.Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.List), f.Err
}

// CreateToken implements people.Tokens.
func (f *Tokens) CreateToken(_ context.Context, actor rules.Actor, t access.Token) (access.Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.Err != nil:
		return access.Token{}, f.Err
	case t.Name == "":
		return access.Token{}, &field.ValidationError{
			Fields: []field.Problem{{Field: "name", Message: "must have 1 to 128 bytes"}}}
	case slices.ContainsFunc(f.List, func(o access.Token) bool {
		return o.Name == t.Name && o.RevokedAt == nil && o.ReplacedAt == nil
	}):
		return access.Token{}, rules.ErrNameTaken
	}
	t.ID, t.CreatedBy, t.CreatedAt = int64(len(f.List)+1), actor.Name, Now
	f.List = append(f.List, t)
	return t, nil
}

// RotateToken implements people.Tokens.
func (f *Tokens) RotateToken(_ context.Context, actor rules.Actor, id int64, hash [32]byte,
	overlap time.Duration) (old, replacement access.Token, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.List, func(t access.Token) bool { return t.ID == id && t.RevokedAt == nil })
	switch {
	case f.Err != nil:
		return old, replacement, f.Err
	case i < 0:
		return old, replacement, rules.ErrNotFound
	case f.List[i].ReplacedAt != nil || f.List[i].InForce(Now) != nil:
		return old, replacement, access.ErrNotRotatable
	}
	replacement = access.Token{ID: int64(len(f.List) + 1), Name: f.List[i].Name, Scopes: f.List[i].Scopes, Hash: hash,
		CreatedBy: actor.Name, CreatedAt: Now}
	f.List[i].ReplacedAt, f.List[i].ExpiresAt = new(Now), new(Now.Add(overlap))
	old, f.List = f.List[i], append(f.List, replacement)
	return old, replacement, nil
}

// RevokeToken implements people.Tokens.
func (f *Tokens) RevokeToken(_ context.Context, _ rules.Actor, id int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.List {
		if f.List[i].ID == id && f.List[i].RevokedAt == nil && f.Err == nil {
			f.List[i].RevokedAt = new(Now)
			return nil
		}
	}
	if f.Err != nil {
		return f.Err
	}
	return rules.ErrNotFound
}

// Log is an audit log in memory. Last is the last query.
type Log struct {
	mu   sync.Mutex
	List []audit.Entry // newest first
	Last audit.Query
	Err  error
	// clock tells the time of new entries.
	clock *Clock
}

// add adds an entry. A nil Log ignores it.
func (f *Log) add(actor rules.Actor, action, kind string, id int64, name string, details any) {
	if f == nil {
		return
	}
	text, err := json.Marshal(details)
	if err != nil {
		panic(err) // of numbers and texts
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := audit.Entry{ID: 1, At: f.clock.Now(), Actor: rules.Actor{Kind: actor.Kind, Name: actor.Name}, Action: action,
		SubjectKind: kind, SubjectID: id, SubjectName: name, Details: text}
	if len(f.List) > 0 {
		e.ID = f.List[0].ID + 1
	}
	f.List = append([]audit.Entry{e}, f.List...)
}

// ListAudit implements people.AuditLog; of the filters it knows actor, action, kind, subject and the beginning of the
// time.
func (f *Log) ListAudit(_ context.Context, q audit.Query) ([]audit.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Last = q
	var out []audit.Entry
	for _, e := range f.List {
		if (q.BeforeID == 0 || e.ID < q.BeforeID) && strings.HasPrefix(e.Actor.Name, q.Actor) &&
			(q.SubjectID == 0 || q.SubjectID == e.SubjectID) && (q.Action == "" || q.Action == e.Action) &&
			!e.At.Before(q.Since) && (q.SubjectKind == "" || q.SubjectKind == e.SubjectKind) &&
			strings.HasPrefix(e.SubjectName, q.Subject) && (q.Limit == 0 || len(out) < q.Limit) {
			out = append(out, e)
		}
	}
	return out, f.Err
}

// entries are n changes of every sort.
func entries(n int) []audit.Entry {
	kinds := []struct{ action, kind, name, details string }{
		{"update", "rule", "charges-per-user",
			`{"version":3,"changes":[{"field":"limit","old":100,"new":120},{"field":"fail_mode","old":"open","new":"local"}]}`},
		{"create", "token", "ci", `{"scopes":["rules:read","rules:write"],"expires_at":"2027-01-20T12:00:00Z"}`},
		{"create", "user", "edda", `{"role":"editor","disabled":false,"password_changed":false}`},
		{"import", "rule", "search-per-user",
			`{"version":1,"changes":[{"field":"name","old":null,"new":"search-per-user"},{"field":"limit","old":null,"new":60},{"field":"tiers","old":null,"new":{"pro":{"limit":500}}}]}`},
		{"delete", "pool", "nightly", `{"version":2,"changes":[{"field":"limit","old":5000,"new":null}]}`},
		{"revoke", "token", "old-gateway", `{"scopes":["check"],"expires_at":null}`},
		{"override_update", "rule", "charges-per-user",
			`{"was":{"id":4,"rule_id":1,"key":"user:acme-*","limit":100,"burst":null,"unlimited":false,"blocked":false,` +
				`"calendar":null,"reason":"trial","expires_at":null,"version":1},"is":{"id":4,"rule_id":1,` +
				`"key":"user:acme-*","limit":10000,"burst":null,"unlimited":false,"blocked":false,"calendar":null,` +
				`"reason":"contract","expires_at":"2027-01-20T12:00:00Z","version":2}}`},
	}
	list := make([]audit.Entry, n)
	for i := range list {
		k := kinds[i%len(kinds)]
		list[i] = audit.Entry{
			ID: int64(n - i), At: Now.Add(-time.Duration(i*i+3) * 7 * time.Minute),
			Actor:  rules.Actor{Kind: "user", Name: []string{"ada", "edda"}[i%2]},
			Action: k.action, SubjectKind: k.kind, SubjectID: int64(i%7 + 1), SubjectName: k.name,
			Details: json.RawMessage(k.details),
		}
		if k.name == "charges-per-user" {
			list[i].SubjectID = 1
		}
	}
	return list
}

func settings() []web.SettingGroup {
	return []web.SettingGroup{
		{Name: "Listening", Settings: []web.Setting{
			{Flag: "--listen", Env: "SLUICE_LISTEN", Value: "127.0.0.1:8080", Default: true, Help: "Address of the HTTP API."}}},
		{Name: "Rules and tokens", Settings: []web.Setting{
			{Flag: "--data-dir", Env: "SLUICE_DATA_DIR", Value: "/var/lib/sluice",
				Help: "Folder of the embedded rule database."},
			{Flag: "--database-url", Env: "DATABASE_URL", Value: "postgres://db:5432/sluice", Help: "Rule database."},
		}},
	}
}

// Book is all rules and pools of a world, for export and import. ApplyErr is the error of applying a plan, Applied a
// text for each applied plan.
type Book struct {
	w        *World
	Stored   []rules.Pool
	Version  int64
	ApplyErr error
	Applied  []string
}

// LoadAllRules implements transfer.Store.
func (f *Book) LoadAllRules(context.Context) (rules.Source, error) {
	return rules.Source{Rules: slices.Clone(f.w.Rules.List), Pools: slices.Clone(f.Stored),
			Profiles: slices.Clone(f.w.Profiles.List), Version: f.Version},
		f.w.Rules.Err
}

// ApplyPlan implements transfer.Store: it notes the plan in Applied and does its
// deletions and creations.
func (f *Book) ApplyPlan(_ context.Context, actor rules.Actor, p rules.Plan) error {
	if f.w.Rules.Err != nil {
		return f.w.Rules.Err
	}
	if f.ApplyErr != nil {
		return f.ApplyErr
	}
	f.Applied = append(f.Applied, fmt.Sprintf("%s: %d created, %d updated, %d deleted%s", actor.Name, len(p.Create),
		len(p.Update), len(p.Delete), actor.Reason))
	for _, gone := range p.Delete {
		f.w.Rules.List = slices.DeleteFunc(f.w.Rules.List, func(r rules.Rule) bool { return r.Name == gone.Name })
	}
	f.w.Rules.List = append(f.w.Rules.List, p.Create...)
	f.Version++
	return nil
}
