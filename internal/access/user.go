package access

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Why a change of accounts is refused.
var (
	// ErrNotFirst refuses the first account when there is one already.
	ErrNotFirst = errors.New("an account already exists")
	// ErrLastAdmin refuses a change after which nobody could look after people.
	ErrLastAdmin = errors.New("cannot disable, demote or delete the last administrator who can sign in")
)

// Role says what a person may do in the console. Each includes the one before.
type Role string

// The roles.
const (
	// RoleViewer sees everything and changes nothing.
	RoleViewer Role = "viewer"
	// RoleEditor changes rules and buckets too.
	RoleEditor Role = "editor"
	// RoleAdmin looks after people and tokens too.
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

// User is a person's account for the console, as stored. It prints and logs
// without its password's hash.
type User struct {
	// ID is given by the database and never reused; 0 before that.
	ID int64
	// Name is unique: [a-z0-9][a-z0-9._@-]{0,62}.
	Name string
	Role Role
	// PasswordHash is what HashPassword gives; "" lets no password in.
	PasswordHash string `json:"-"`
	// Issuer and Subject are the Identity that the account belongs to, by which its
	// owner signs in; both "" for an account of Sluice's own. They never change.
	Issuer, Subject string
	// Disabled: the account exists and nobody can sign in with it.
	Disabled bool
	// Generation grows whenever every session of the account must end: a new
	// password, another role, disabled. A session carries the one it began with.
	Generation int64
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	LastLogin  *time.Time // nil: never
}

// External reports whether the account's owner signs in by single sign-on.
func (u *User) External() bool { return u.Issuer != "" }

// String names the account for people and logs.
func (u User) String() string { return fmt.Sprintf("user %d %q [%s]", u.ID, u.Name, u.Role) }

// GoString keeps the hash out of %#v.
func (u User) GoString() string { return "access.User{" + u.String() + "}" }

// LogValue keeps the hash out of structured logs.
func (u User) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("id", u.ID), slog.String("name", u.Name), slog.String("role", string(u.Role)))
}
