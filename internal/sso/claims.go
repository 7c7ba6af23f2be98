package sso

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/access"
)

// maxGroups bounds how many groups of one person are looked at.
const maxGroups = 5000

// claims are what a provider says of a person.
type claims map[string]any

// find is the value of a claim: the one with exactly that name, else the one at
// the end of the path that its dots make.
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

// groups are the texts of a claim: one, or a list of them. An e-mail address that
// the provider has not verified is anyone's, and so no group.
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

// verified reports whether the provider has verified the e-mail address; some say
// so in a text.
func (c claims) verified() bool {
	return c["email_verified"] == true || c["email_verified"] == "true"
}

// name is what an account of this person could be called.
func (c claims) name() string {
	for _, claim := range []string{"preferred_username", "email", "name"} {
		if text, ok := c[claim].(string); ok && strings.TrimSpace(text) != "" {
			return access.AccountName(text)
		}
	}
	return access.AccountName("")
}

// authTime is when the person last proved who they are, zero if that is not said.
func (c claims) authTime() time.Time {
	seconds, ok := c["auth_time"].(float64)
	if !ok || seconds <= 0 || seconds > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// role is the highest to which any of the groups leads, "" if none does.
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
