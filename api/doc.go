// Package api is the decision surface: one Checker that decides requests, and
// the HTTP face that carries questions to it and answers back, beside the CRUD
// of rules. checker.go is the page to read first.
//
// A worked example. With the rule charges-per-user (5 a second per user on POST
// /v1/charges) in force, the sixth
//
//	POST /ratelimit/check {"method":"POST","route":"/v1/charges","user":"42"}
//
// within a second becomes a Question, which the set matches to the bucket
// {user:42}|7|sc; one store call denies it; the Answer is HTTP 200 with
// {"allowed":false,"status":429,"retry_after_ms":190,...} and the headers and
// body that the gateway passes on to its client.
//
// Faces decode and encode and know nothing of limits; the Checker decides and
// knows nothing of faces. The documents they exchange are in openapi.yaml, and
// tests hold both to it.
package api
