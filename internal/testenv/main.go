package testenv

import (
	"os"
	"sync"
	"testing"
)

// shared holds the state that outlives one test: the stop functions of the servers that the whole test binary shares,
// newest last.
var shared struct {
	sync.Mutex
	stops []func()
}

// atExit registers a function that Main runs after the last test.
func atExit(stop func()) {
	shared.Lock()
	defer shared.Unlock()
	shared.stops = append(shared.stops, stop)
}

// stopShared runs the registered stops, last in first out.
func stopShared() {
	shared.Lock()
	stops := shared.stops
	shared.stops = nil
	shared.Unlock()
	for i := len(stops) - 1; i >= 0; i-- {
		stops[i]()
	}
}

// Runner is a test binary whose shared servers stop after the last test. It
// has the one method that goleak.VerifyTestMain wants.
type Runner struct {
	m interface{ Run() int }
}

// Wrap returns m as a Runner, for packages that check for leaked goroutines:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }
func Wrap(m interface{ Run() int }) Runner { return Runner{m: m} }

// Run runs the tests, then stops every shared server. It returns the exit code
// of the tests. Call it once.
func (r Runner) Run() int {
	defer stopShared()
	return r.m.Run()
}

// Main runs the tests, stops every shared server and exits. Use it as the body of TestMain in a package that uses a
// shared server.
func Main(m *testing.M) {
	os.Exit(Wrap(m).Run())
}
