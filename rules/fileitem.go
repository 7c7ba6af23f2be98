package rules

import "fmt"

// itemKind is the type of one value of a rules file.
type itemKind uint8

const (
	itemNull itemKind = iota
	itemText
	itemWhole // an integer, in decimal
	itemOther // another number
	itemTruth
	itemList
	itemObject
)

var itemNames = [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a list", "an object"}

// item is one value of a rules file, whether written in YAML or JSON.
type item struct {
	kind    itemKind
	text    string   // of a scalar
	list    []item   // of itemList
	members []member // of itemObject, in order, names distinct
	line    int
}

type member struct {
	name  string
	line  int
	value item
}

// Bounds that keep a hostile file cheap. Real files are three levels deep and
// have some twenty members an object.
const (
	maxDepth   = 16
	maxMembers = 64
	// maxSigns bounds the bytes of YAML that can begin or end a token, so the
	// memory that tokens take, in what is read at once.
	maxSigns = 600_000
	// maxValues bounds the values of one rule or pool in JSON.
	maxValues = 100_000
	// maxWhole is the longest YAML that is read at once, in bytes: a whole file, or
	// one rule of a longer one.
	maxWhole = 1 << 20
)

// syntaxError is what is wrong with the form of a file, and where.
type syntaxError struct {
	line, column int
	message      string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("line %d:%d %s", e.line, e.column, e.message)
}
