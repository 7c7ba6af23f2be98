package access

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Why a change of accounts is rejected.
var (
	// ErrNotFirst: the first account cannot be created because one exists.
	ErrNotFirst = errors.New("an account already exists")
	// ErrLastAdmin: after the change no administrator could sign in.
	ErrLastAdmin = errors.New("cannot disable, demote or delete the last administrator who can sign in")
)

// Role says what a person may do in the console. Each includes the previous one.
type Role string

// The roles.
const (
	// RoleViewer can see everything and change nothing.
	RoleViewer Role = "viewer"
	// RoleEditor can also change rules and buckets.
	RoleEditor Role = "editor"
	// RoleAdmin can also manage accounts and tokens.
	RoleAdmin Role = "admin"
)

// Roles lists every role, from the narrowest to the widest.
func Roles() []Role { return []Role{RoleViewer, RoleEditor, RoleAdmin} }

// Includes reports whether r may do what want may. A role that is not among
// Roles includes nothing, and none includes it.
func (r Role) Includes(want Role) bool {
	have, need := slices.Index(Roles(), r), slices.Index(Roles(), want)
	return need >= 0 && have >= need
}

// ParseRole reads a role by its name; the error lists the names.
func ParseRole(name string) (Role, error) {
	if r := Role(name); slices.Contains(Roles(), r) {
		return r, nil
	}
	names := make([]string, len(Roles()))
	for i, r := range Roles() {
		names[i] = string(r)
	}
	return "", fmt.Errorf("must be one of %s", strings.Join(names, ", "))
}

// User is a console account as stored. Its printed and logged form has no password
// hash.
type User struct {
	// ID is assigned by the database and never reused; 0 before that.
	ID int64
	// Name is unique: [a-z0-9][a-z0-9._@-]{0,62}.
	Name string
	Role Role
	// PasswordHash is the result of HashPassword; "" matches no password.
	PasswordHash string `json:"-"`
	// Issuer and Subject identify the Identity that signs in to the account; both are "" for accounts with a password.
	// They never change.
	Issuer, Subject string
	// Disabled is true if nobody can sign in to the account.
	Disabled bool
	// Generation is incremented when all sessions of the account must end: after a change
	// of password or role, or when it is disabled. A session has the generation at its
	// start.
	Generation int64
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	LastLogin  *time.Time // nil: never
}

// External reports whether the account uses single sign-on.
func (u *User) External() bool { return u.Issuer != "" }

// String returns the id, name and role of the account, for display and logs.
func (u User) String() string { return fmt.Sprintf("user %d %q [%s]", u.ID, u.Name, u.Role) }

// GoString keeps the hash out of %#v.
func (u User) GoString() string { return "access.User{" + u.String() + "}" }

// LogValue keeps the hash out of structured logs.
func (u User) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("id", u.ID), slog.String("name", u.Name), slog.String("role", string(u.Role)))
}
