//go:build race

package updates

// One goroutine runs the simulation, which the race detector makes many times as slow. make test runs all seeds
// and the tests of guards without it.
func init() { defaultSeeds = 20 }
