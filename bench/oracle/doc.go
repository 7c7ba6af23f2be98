// Package oracle holds tests that compare Sluice with envoyproxy/ratelimit, whose configuration files it imports and
// whose gRPC service it answers. The peer's packages are the reference: its matching, and its server on a Redis of its
// own.
//
// The tests need no race detector and are slow with it: `go test -race ./...` leaves them out, and `make test` runs them
// without. `make oracle` compares a hundred times as many configurations.
package oracle
