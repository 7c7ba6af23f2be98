package rulecopy

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"sluice/rules/override"
)

// Whoever writes many rules or overrides is asked to rest after every piece.
func TestSave_RestsAfterEachPiece(t *testing.T) {
	const many = 5_000
	c := grown(many)
	e := override.New().Edit()
	for i := range many {
		e.Add(override.Row{ID: int64(i + 1), RuleID: 1, Match: fmt.Sprintf("user:%d", i), Blocked: true})
	}
	o := e.Done(1, 0)
	path := filepath.Join(t.TempDir(), "a.copy")
	rests := 0
	rest := func() { rests++ }
	for name, save := range map[string]func() error{
		"rules":     func() error { return SaveRules(path, here, c, rest, slices.Values(pointers(c.Rules))) },
		"overrides": func() error { return SaveOverrides(path, here, o, rest, time.Now()) },
	} {
		rests = 0
		if err := save(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if least := int(info.Size()) / pieceSize; least < 2 || rests < least {
			t.Errorf("%s: %d rests in %d bytes, want at least %d", name, rests, info.Size(), max(least, 2))
		}
	}
}

// A copy of 100,000 rules is written after each edit of one. Garbage of a few KB a rule would fill the heap up to the
// collector's target, and the node would keep it. Under the race detector pools forget, and more
// is allocated.
func TestSave_LeavesLittleGarbage(t *testing.T) {
	const many, most = 5_000, 3072 // bytes a rule
	c := grown(many)
	all, path := pointers(c.Rules), filepath.Join(t.TempDir(), "a.copy")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := SaveRules(path, here, c, func() {}, slices.Values(all)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / many; got > most {
		t.Errorf("%d bytes were allocated for each rule, want at most %d", got, most)
	}
}

// grown is sample with many rules.
func grown(many int) *Copy {
	c := sample()
	for i := len(c.Rules); i < many; i++ {
		r := c.Rules[0]
		r.ID, r.Name = int64(i+1), fmt.Sprintf("rule-%d", i)
		c.Rules = append(c.Rules, r)
	}
	return c
}
