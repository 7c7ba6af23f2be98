package view

import (
	"strings"
	"time"

	"sluice/internal/access"
)

// PersonLine is a row of the table of accounts.
type PersonLine struct {
	User *access.User
	// Sessions counts those in force.
	Sessions int
	// Self: the account is the viewer's own.
	Self bool
}

// PeopleList is the page of accounts. Admins counts those who can sign in.
type PeopleList struct {
	Lines  []PersonLine
	Admins int
}

// SessionLine is one session of an account.
type SessionLine struct {
	// ID names it on the page.
	ID             string
	Address, Agent string
	Began, Expires time.Time
	// Here: it is the one that shows the page.
	Here bool
}

// Person is the page of one account.
type Person struct {
	User     *access.User
	Sessions []SessionLine
	Self     bool
}

// Invite is a link by which an account's owner chooses a password; it is shown
// once.
type Invite struct {
	User    *access.User
	Link    string
	Expires time.Time
	// Guessed: nobody configured the address of the console, so the link has the
	// one that the browser asked for.
	Guessed bool
}

// Accept is the page behind that link.
type Accept struct {
	Name, Token string
	Form        Form
}

// Account is the page of one's own account.
type Account struct {
	User     *access.User
	Sessions []SessionLine
	Form     Form
	Problem  string
}

// TokenList is the page of API tokens.
type TokenList struct{ Live, Over []access.Token }

// TokenMade shows the secret of a new token, once. Base is where the API is.
type TokenMade struct {
	Token        *access.Token
	Secret, Base string
}

// SettingGroup are the settings of one area.
type SettingGroup struct {
	Name     string
	Settings []Setting
}

// Setting is one setting as it is in force. A secret's Value says only whether
// there is one.
type Setting struct {
	Flag, Env, Value, Help string
	// Default: nobody has set it.
	Default bool
}

// ScopeField is the name of the box for a scope.
func ScopeField(s access.Scope) string { return "scope_" + strings.ReplaceAll(string(s), ":", "_") }

// signsInBy says how the owner of an account signs in.
func signsInBy(u *access.User) string {
	switch {
	case u.External():
		return "single sign-on"
	case u.PasswordHash == "":
		return "nothing yet"
	}
	return "password"
}

// roleAbout says what a role may do.
func roleAbout(r access.Role) string {
	switch r {
	case access.RoleAdmin:
		return "everything, people and tokens too"
	case access.RoleEditor:
		return "see everything; change rules and buckets"
	}
	return "see everything, change nothing"
}

func scopeAbout(s access.Scope) string {
	switch s {
	case access.ScopeCheck:
		return "Ask for decisions: what a gateway needs."
	case access.ScopeCounters:
		return "Reset buckets, and refund without naming a request."
	case access.ScopeDeferred:
		return "Release and acknowledge deferred requests, with their payloads."
	case access.ScopeRulesRead:
		return "Read rules, overrides, pools and metrics; explain requests."
	case access.ScopeRulesWrite:
		return "Change them; includes rules:read."
	case access.ScopeAdmin:
		return "All of the above."
	}
	return ""
}

// roleChoices are the roles of a form.
func roleChoices() []Choice {
	var out []Choice
	for _, r := range access.Roles() {
		out = append(out, Choice{string(r), string(r) + ": " + roleAbout(r)})
	}
	return out
}

func roleKind(r access.Role) string {
	switch r {
	case access.RoleAdmin:
		return "warn"
	case access.RoleEditor:
		return "info"
	}
	return "plain"
}

var expiryChoices = []Choice{{"7", "In a week"}, {"30", "In 30 days"}, {"90", "In 90 days"}, {"365", "In a year"}, {"0", "Never"}}

// expiring is the time of an expiry; the zero time is never.
func expiring(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
