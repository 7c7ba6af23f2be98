package api

import (
	"flag"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(bothWays{m})) }

// bothWays runs the tests twice: the second time every request of a fixture arrives on a connection of a server with
// plain checks, which answers the checks itself and gives the rest to net/http.
type bothWays struct{ tests *testing.M }

// onWire is true during the second time.
var onWire bool

func (b bothWays) Run() int {
	code := b.tests.Run()
	if fuzzing := flag.Lookup("test.fuzz"); code == 0 && (fuzzing == nil || fuzzing.Value.String() == "") {
		onWire = true
		checks := flag.Lookup("rapid.checks").Value
		if n, err := strconv.Atoi(checks.String()); err == nil && n > 3 {
			_ = checks.Set(strconv.Itoa(n / 3)) // the engine behind is the same; a number is taken
		}
		code = b.tests.Run()
	}
	return code
}
