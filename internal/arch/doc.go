// Package arch has no code, only the test of the imports between the rooms of this module. The
// table is in rooms_test.go: every package is a room, and a room lists the other rooms and the
// foreign modules that it may import. The arrows run
// cmd → internal/app → {api, web} → rules → limiter. The test fails for a package without a
// room: add one with the fewest arrows that it needs.
package arch
