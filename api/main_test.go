package api

import (
	"flag"
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
		code = b.tests.Run()
	}
	return code
}
