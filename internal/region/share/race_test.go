//go:build race

package share

// One goroutine runs the simulation, which the race detector makes many times as slow. make test runs all seeds without
// it.
func init() { defaultSeeds = 20 }
