package reply

import "strconv"

// Kind is a kind of problem. Table describes each.
type Kind uint8

// The kinds of problems, in the order of their statuses. The last three are denials, which are meant for the client of
// a caller; AppendDenial writes them.
const (
	Malformed Kind = iota
	Credentials
	Forbidden
	NotFound
	Method
	Timeout
	NameTaken
	Taken
	PoolUsed
	RuleNamed
	OverrideExists
	ReservationEnded
	Stale
	TooLarge
	MediaType
	Invalid
	TooSoon
	Internal
	Overloaded
	StoreUnavailable
	QueueUnavailable
	DatabaseUnavailable
	DatabaseReplica
	NotReady
	QuotaExceeded
	AbnormalUsage
	ReducedCapacity
	kindCount
)

// PagePath is the path under which each kind has a page, before its name.
const PagePath = "/problems/"

// Description explains a kind of problem and what to do about it. Its texts are sentences without markup.
type Description struct {
	// Name is a stable word, the last segment of the path of the page.
	Name string
	// Type is the type of the problem document. Clients branch on it.
	Type string
	// Title and Status are the title and the status of the document.
	Title  string
	Status int
	// Meaning says what happened, Cause why it happens, and Action what a caller does.
	Meaning, Cause, Action string
	// Header is a header that the response has, or "".
	Header string
	// Example is a document of this kind, as JSON.
	Example string
}

// Denial reports whether the problem is for the client of a caller.
func (d *Description) Denial() bool { return d.Type != PagePath+d.Name }

// Table returns the descriptions of all kinds of problems.
func Table() []Description { return table[:] }

// Find returns the description of the kind with this name, or nil.
func Find(name string) *Description {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// Problem returns a problem document of this kind.
func (k Kind) Problem(detail string) *Problem {
	d := &table[k]
	return &Problem{Type: d.Type, Title: d.Title, Status: d.Status, Detail: detail}
}

// table is kinds with the types and the whole examples.
var table = func() [kindCount]Description {
	all := kinds
	for i := range all {
		d := &all[i]
		if d.Type == "" {
			d.Type = PagePath + d.Name
		}
		b := AppendString([]byte(`{"type":`), d.Type)
		b = AppendString(append(b, `,"title":`...), d.Title)
		b = strconv.AppendInt(append(b, `,"status":`...), int64(d.Status), 10)
		d.Example = string(append(append(append(b, ','), d.Example...), '}'))
	}
	return all
}()
