package region

import "time"

// Calls are what became of the decisions that a node has asked another region for, because their keys are at home there
// (package home).
type Calls struct {
	// Decided and Failed count since the start. Failing says why the last one failed, "" if it did not, and Since when the
	// first one failed after one that did not.
	Decided, Failed int64
	Failing         string
	Since           time.Time
}
