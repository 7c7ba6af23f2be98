// Package tree represents the values of a JSON or YAML document between the readers that build
// them and the decoders of rules.
package tree

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
	// Line is the line in the file at which the value starts, from 1; 0 for a request's body.
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

// IsWhole reports whether the text of a number is that of a Whole.
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
