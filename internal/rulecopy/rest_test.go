package rulecopy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/rules/override"
)

// Whoever writes many rules or overrides is asked to rest after every piece.
func TestSave_RestsAfterEachPiece(t *testing.T) {
	const many = 5_000
	c := sample()
	for i := len(c.Rules); i < many; i++ {
		r := c.Rules[0]
		r.ID, r.Name = int64(i+1), fmt.Sprintf("rule-%d", i)
		c.Rules = append(c.Rules, r)
	}
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
