// Package plain reads plain checks straight from a connection, without net/http: requests to POST /ratelimit/check in
// the few lines that a gateway always sends. As soon as a request is not plain, it gives the connection, with every
// byte that is not answered, to net/http for good. Nothing is charged before that is decided.
// docs/decisions/0025-plain-checks.md says why, and what it saves.
//
// An example of a plain request:
//
//	POST /ratelimit/check HTTP/1.1
//	Host: sluice:8080
//	Authorization: Bearer slk_Jx0…
//	Content-Type: application/json
//	Content-Length: 34
//
//	{"route":"/v1/charges","user":"7"}
//
// With "Content-Length: +34", a second Host, "Expect: 100-continue" or a line that ends in LF alone, the request goes
// to net/http.
//
// head.go is the reader: a strict grammar, a subset of what net/http accepts, which reads it in the same way. plain.go
// is the loop of one connection. answer.go writes the head of a response. watch.go notices clients that left, and
// writes that take too long. This package does not interpret checks: Deps.Check answers them, with the functions of the
// route.
package plain
