// Package decide is the engine: one Checker that decides requests for every face.
// checker.go is the page to read first.
//
// A worked example. With the rule charges-per-user (5 a second per user on POST
// /v1/charges) in force, the sixth
//
//	POST /ratelimit/check {"method":"POST","route":"/v1/charges","user":"42"}
//
// within a second becomes a Question, which the set matches to the bucket
// {user:42}|7|sc; one store call denies it; the Answer is Denied, with a
// retry-after of 190 ms. The HTTP face writes it as
// {"allowed":false,"status":429,"retry_after_ms":190,...} with the headers and
// body that the gateway passes on to its client.
//
// Faces decode and encode and do not depend on limits. The Checker decides and does not depend
// on faces, on HTTP, or on a particular store.
package decide
