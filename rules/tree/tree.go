// Package tree represents the values of a JSON or YAML document between the readers that build
// them and the decoders of rules.
package tree

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the type of a value.
type Kind uint8

// The kinds of values. A whole number is written in decimal digits with an optional minus sign;
// every other number is a Number.
const (
	Null Kind = iota
	Text
	Whole
	Number
	Truth
	List
	Object
)

// String returns the kind as a word within a sentence.
func (k Kind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a list", "an object"}[k]
}

// Value is one value of a document.
type Value struct {
	Kind Kind
	// Text is the text of a text, a number or a truth, as written.
	Text string
	// List holds the elements of a List, Members the members of an Object in their order, with
	// distinct names.
	List    []Value
	Members []Member
	// Line is the line at which the value starts, from 1.
	Line int
}

// Member is one member of an object.
type Member struct {
	Name  string
	Line  int
	Value Value
}

// Member returns the member of an object with a name, nil if there is none.
func (v *Value) Member(name string) *Value {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i].Value
		}
	}
	return nil
}

// maxMembers bounds the members of an object, so that names are compared fast enough. Real objects have some twenty.
const maxMembers = 200

// Refuses returns what is wrong with a name for the next member of an object, "" if nothing is.
func (v *Value) Refuses(name string) string {
	switch {
	case v.Member(name) != nil:
		return "the member " + Shown(name) + " appears twice"
	case len(v.Members) == maxMembers:
		return "an object has more than " + strconv.Itoa(maxMembers) + " members"
	}
	return ""
}

// Shown returns a text of a document for a message, in quotes and with at most 100 bytes.
func Shown(text string) string {
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:100], "") + "..."
	}
	return strconv.Quote(text)
}

// SyntaxError is what is wrong with the form of a document, and where. Line and Column count from 1.
type SyntaxError struct {
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d:%d %s", e.Line, e.Column, e.Message)
}

// IsNumber reports whether a value is a number, whole or not.
func (v *Value) IsNumber() bool { return v.Kind == Whole || v.Kind == Number }

// True reports whether a truth is true.
func (v *Value) True() bool { return v.Kind == Truth && (v.Text[0] == 't' || v.Text[0] == 'T') }

// MoveDown adds a number to every line number.
func (v *Value) MoveDown(by int) {
	v.Line += by
	for i := range v.List {
		v.List[i].MoveDown(by)
	}
	for i := range v.Members {
		v.Members[i].Line += by
		v.Members[i].Value.MoveDown(by)
	}
}

// IsWhole reports whether the text of a number is a Whole.
func IsWhole(text string) bool {
	if len(text) > 1 && text[0] == '-' {
		text = text[1:]
	}
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
