// Package arch holds no code, only the test that keeps the rooms of this module
// apart. rooms_test.go is the table: every package is a room, and a room states
// which other rooms and which foreign modules it may import. The arrows run
// cmd → internal/app → {api, web} → rules → limiter. A package without a room
// fails the test: give it one, with the fewest arrows it needs.
package arch
