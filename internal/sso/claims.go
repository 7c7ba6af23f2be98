package sso

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/access"
)

// maxGroups is how many groups of one person are used at most.
const maxGroups = 5000

// claims are the claims of a provider about a person.
type claims map[string]any

// find returns the value of the claim with exactly that name. If there is none, it reads the name as a path with dots
// and returns the value at that path.
func (c claims) find(name string) (any, bool) {
	if v, ok := c[name]; ok {
		return v, v != nil
	}
	head, rest, dotted := strings.Cut(name, ".")
	inner, ok := c[head].(map[string]any)
	if !dotted || !ok {
		return nil, false
	}
	return claims(inner).find(rest)
}

// groups returns the texts of a claim, which is a text or a list. An e-mail address that
// the provider has not verified is ignored.
func (c claims) groups(name string) []string {
	if name == "email" && !c.verified() {
		return nil
	}
	v, _ := c.find(name)
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var list []string
		for _, one := range v[:min(len(v), maxGroups)] {
			if text, ok := one.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}

// verified reports whether the provider has verified the e-mail address. Some providers
// send a text instead of a boolean.
func (c claims) verified() bool {
	return c["email_verified"] == true || c["email_verified"] == "true"
}

// name returns a name for the account of this person.
func (c claims) name() string {
	for _, claim := range []string{"preferred_username", "email", "name"} {
		if text, ok := c[claim].(string); ok && strings.TrimSpace(text) != "" {
			return access.AccountName(text)
		}
	}
	return access.AccountName("")
}

// authTime returns when the person last authenticated; zero if unknown.
func (c claims) authTime() time.Time {
	seconds, ok := c["auth_time"].(float64)
	if !ok || seconds <= 0 || seconds > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// role returns the highest role that the groups are mapped to, or "".
func (p *Provider) role(groups []string) access.Role {
	for _, role := range slices.Backward(access.Roles()) {
		for _, group := range p.opt.Groups[role] {
			if slices.Contains(groups, group) {
				return role
			}
		}
	}
	return ""
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
