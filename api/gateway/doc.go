// Package gateway has the HTTP faces that gateways call once for each request of a client: forward,
// nginx and ext_authz. A question describes the client's request by its headers, and the profile in
// the path says how to read them.
//
// A worked example. Caddy asks about a client's POST /users/17 with
//
//	GET /ratelimit/forward/shop
//	Sluice-Token: slk_…
//	X-Forwarded-Method: POST
//	X-Forwarded-Uri: /users/17?full=1
//	X-Forwarded-For: 203.0.113.7
//	X-User: 42
//
// The profile shop makes of it the method POST, the route /users/{id}, the user 42 and the address
// 203.0.113.7. An allowed request gets 200 with the client headers and no body, a denied one 429
// with a problem document for the client.
package gateway
