package view

import (
	"maps"
	"net/url"
	"slices"
)

// Failure is a page about what went wrong.
type Failure struct {
	Status        int
	Title, Detail string
	// Again carries what was typed; nil if there is nothing to send again.
	Again *Again
}

// Again is a form that was not taken.
type Again struct {
	// Action is where it goes.
	Action string
	Values url.Values
	// SignIn: whoever sent it has to sign in first.
	SignIn bool
}

// names are the fields, in order.
func (a *Again) names() []string { return slices.Sorted(maps.Keys(a.Values)) }
