package api

import (
	"flag"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(bothWays{m})) }

// bothWays runs the tests, and then those that have sent a check or a header once more: every request of a fixture
// arrives on a connection of a server with plain checks, which answers the checks and gives the rest to net/http.
type bothWays struct{ tests *testing.M }

// onWire is true during the second time.
var onWire bool

// forWire are the names of the tests that run a second time.
var forWire sync.Map

func (b bothWays) Run() int {
	code := b.tests.Run()
	if fuzzing := flag.Lookup("test.fuzz"); code != 0 || fuzzing != nil && fuzzing.Value.String() != "" {
		return code
	}
	var names []string
	forWire.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	if len(names) == 0 {
		return code
	}
	onWire = true
	checks := flag.Lookup("rapid.checks").Value
	if n, err := strconv.Atoi(checks.String()); err == nil && n > 3 {
		_ = checks.Set(strconv.Itoa(n / 3)) // the engine behind is the same; a number is taken
	}
	if run := flag.Lookup("test.run").Value; !strings.Contains(run.String(), "/") {
		_ = run.Set("^(" + strings.Join(names, "|") + ")$")
	}
	return b.tests.Run()
}
