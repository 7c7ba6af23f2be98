package view

import (
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
)

// OverrideTable is the page of a rule's overrides.
type OverrideTable struct {
	Rule      rules.Rule
	Overrides []rules.Override
	// More: there are some after these; First: there are none before.
	More, First bool
	Now         time.Time
	Query       Query
}

// OverrideForm is an override that is being written.
type OverrideForm struct {
	Rule rules.Rule
	// ID is 0 for a new one.
	ID      int64
	Form    Form
	Problem string
	// Theirs is what somebody else made of it meanwhile, nil if nobody did.
	Theirs *rules.Override
}

// OverrideImport is a file of overrides that is being imported.
type OverrideImport struct {
	Rule   rules.Rule
	Form   Form
	Errors []rules.FieldError
	// Problem is what else stood in the way.
	Problem string
	// Plan is what would happen, nil before anyone asked. Upload is the file that
	// waits on the node, "" if the page carries it.
	Plan   *rules.OverrideImported
	Upload string
	// Of stands for the file and what was ticked when the plan was made.
	Of string
}

// PoolLine is a row of the table of pools.
type PoolLine struct {
	Pool  rules.Pool
	State PoolState
	// Rules is how many rules in force name it.
	Rules int64
}

// PoolForm is a pool that is being written.
type PoolForm struct {
	// Name is empty for a new one.
	Name    string
	Form    Form
	Problem string
	// Changes are from what somebody else saved meanwhile to what was typed.
	Changes []rules.Change
}

// HotPage is the page of hot keys.
type HotPage struct {
	// Watching: some node looks for them.
	Watching bool
	Lines    []HotLine
	// Hot is how many keys are hot on any node.
	Hot int
	// Live says of which nodes the figures are, and of when.
	Live fleet.Live
}

// used is how many units of a pool count now, 0 if nobody knows.
func used(s PoolState) int64 {
	if s.Used == nil {
		return 0
	}
	return *s.Used
}

// poolKind colours how full a pool is.
func poolKind(s PoolState) string {
	switch u := used(s); {
	case u*10 >= s.Capacity*9:
		return "bad"
	case u*10 >= s.Capacity*7:
		return "warn"
	}
	return "good"
}

// keySample is what a key of a scope looks like.
func keySample(scope string) string {
	switch {
	case strings.HasPrefix(scope, "ip"):
		return "ip:203.0.113.7"
	case strings.HasPrefix(scope, "apikey"):
		return "the API key, which is hashed before it is stored"
	case strings.HasPrefix(scope, "attr:"):
		name, _, _ := strings.Cut(strings.TrimPrefix(scope, "attr:"), "+")
		return name + ":acme"
	case scope == rules.ScopeGlobal:
		return "global"
	}
	return "user:42 or user:acme-*"
}

// faultWords says how many faults are listed.
func faultWords(n int) string {
	if n >= rules.MaxOverrideErrors {
		return "These are the first faults of the file:"
	}
	return Plural(int64(n), "fault") + " in the file:"
}
