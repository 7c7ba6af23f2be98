package rulefile

import "fmt"

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
