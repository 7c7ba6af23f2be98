// Package httplimit limits the requests of a net/http server by asking a Sluice service.
//
//	limit, err := httplimit.New(c, httplimit.Options{})
//	if err != nil {
//		return err
//	}
//	mux.HandleFunc("GET /users/{id}", user)
//	http.ListenAndServe(":8000", limit.Handler(mux))
//
// A request of 203.0.113.7 for /users/17 is checked with the method GET, the route /users/{id}, the address 203.0.113.7
// and the host it was sent to. If a rule denies it, the client gets the status 429 with Retry-After, RateLimit,
// X-RateLimit-Limit and similar headers, and a problem document; the handler does not run. An allowed response contains
// the headers too.
package httplimit
