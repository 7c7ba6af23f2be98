// Package trouble is the registry of the troubles of a node. A condition is declared once, with its texts. Code that
// detects its beginning or end reports it to the Registry of the node, as often as it likes:
//
//	var unwritable = trouble.Declare(trouble.Condition{Code: "rules_copy_failing", Of: "file",
//		Starts: "saving the local copy failed", Ends: "saving the local copy works again"})
//
//	registry.Note(unwritable, "rules.copy", os.Rename(from, to)) // nil ends it
//
// The registry logs one line when it begins and one when it ends. The metric sluice_trouble, /readyz, the banners of
// the console and the incidents of the node follow.
package trouble

import (
	"fmt"
	"slices"
	"sync"
)

// Condition is something that can be wrong on a node. Do not change it after Declare.
type Condition struct {
	// Code is unique and in snake case. It is the label of the metric and what /readyz lists. With the subject it is the
	// key of an incident, which is the same on all nodes.
	Code string
	// Severe conditions affect requests or edits now. They are logged as errors, others as warnings.
	Severe bool
	// Starts and Ends are the log lines, "" for a condition that is logged elsewhere.
	Starts, Ends string
	// Of is what a subject is, as the attribute of the log lines: "region". It is "" without subjects.
	Of string
	// Advice says in the log what operators can do, "" for nothing.
	Advice string
	// Banner is shown on every page of the console, "" for none.
	Banner string
	// Incident is the kind of incident, "" for a condition that is none: it follows from another one, or nobody misses
	// anything.
	Incident string
	// EachReason: the log also has a line when the error changes, at most one every 10 s.
	EachReason bool
}

var declared struct {
	sync.Mutex
	all []*Condition
}

// Declare makes a condition known. Call it for package-level variables. It panics if the code is taken.
func Declare(c Condition) *Condition {
	declared.Lock()
	defer declared.Unlock()
	if slices.ContainsFunc(declared.all, func(o *Condition) bool { return o.Code == c.Code }) {
		panic(fmt.Sprintf("trouble: the code %q is taken", c.Code))
	}
	declared.all = append(declared.all, &c)
	return &c
}

// Declared returns all conditions of this program.
func Declared() []*Condition {
	declared.Lock()
	defer declared.Unlock()
	return slices.Clone(declared.all)
}
