package view

import (
	"maps"
	"net/url"
	"slices"
)

// Failure is an error page.
type Failure struct {
	Status        int
	Title, Detail string
	// Resend is the form to send again, nil for none.
	Resend *Resend
	// Primary is the address of the page in a console that can do what this one cannot; "" for none.
	Primary string
}

// Resend is a form that was not processed.
type Resend struct {
	// Action is the address of the form.
	Action string
	Values url.Values
	// SignIn means that the person has to sign in first.
	SignIn bool
	// Typed are the fields whose values are shown, because sending the form again may never succeed here.
	Typed []string
}

// names are the fields, in order.
func (a *Resend) names() []string { return slices.Sorted(maps.Keys(a.Values)) }
