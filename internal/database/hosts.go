package database

import (
	"encoding/json"
	"strings"

	"gorm.io/gorm"

	"sluice/rules"
)

// hostPrefix begins the column scope of a rule with host or cidr. What follows is a hash of its scope, for the filter.
// It is the scope of an attribute that no request has: older builds would apply such a rule to every host, or compile
// no set with it. To them it is a valid rule that never applies.
const hostPrefix = "attr:needs-hosts."

// newerMembers are the members of a rule with host or cidr that older builds must not read.
type newerMembers struct {
	Scope string  `json:"scope"`
	When  *string `json:"when"`
}

// newerRule is a rule with host or cidr as it is stored in policies and versions: the rule itself has the scope
// of hostPrefix and no condition.
type newerRule struct {
	rules.Rule
	Newer *newerMembers `json:"newer,omitempty"`
}

// guarded returns the form in which a rule is stored.
func guarded(r *rules.Rule) newerRule {
	out := newerRule{Rule: *r}
	if r.NeedsHosts() {
		out.Newer = &newerMembers{r.Scope, r.When}
		out.Scope, out.When = hostScope(r.Scope), nil
	}
	return out
}

// hostScope is the column scope of a rule with host or cidr.
func hostScope(scope string) string { return hostPrefix + hashed(scope, 16) }

// policies returns the column policies.
func (r *newerRule) policies() (document, error) {
	text, err := r.MarshalPolicies()
	if err != nil || r.Newer == nil {
		return document(text), err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return "", err
	}
	if members["newer"], err = json.Marshal(r.Newer); err != nil {
		return "", err
	}
	text, err = json.Marshal(members)
	return document(text), err
}

// restore returns the rule that was stored. A scope or a condition that was written since, by hand or by an older
// build, counts.
func (r *newerRule) restore() rules.Rule {
	if r.Newer != nil && strings.HasPrefix(r.Scope, hostPrefix) {
		r.Scope = r.Newer.Scope
	}
	if r.Newer != nil && r.When == nil {
		r.When = r.Newer.When
	}
	return r.Rule
}

// restored is restore for the rule of a row.
func (row *ruleRow) restored(r rules.Rule) rules.Rule {
	if !strings.Contains(string(row.Policies), `"newer"`) {
		return r
	}
	stored := newerRule{Rule: r}
	var members struct{ Newer *newerMembers }
	if json.Unmarshal([]byte(row.Policies), &members) == nil {
		stored.Newer = members.Newer
	}
	return stored.restore()
}

// ofScope selects the rules of a scope.
func ofScope(tx *gorm.DB, scope string) *gorm.DB {
	return tx.Where("scope IN ?", []string{scope, hostScope(scope)})
}

// storedWhen is the condition of a row.
const storedWhen = "coalesce(policies ->> 'when', policies -> 'newer' ->> 'when')"
