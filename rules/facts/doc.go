// Package facts reads the facts about a client's request from its headers, as a profile says.
//
// A worked example. A profile reads user from the header X-User or, if that is missing, from the cookie uid, has the
// route /users/{id} and trusts 10.0.0.0/8. The request
//
//	GET /users//17?full=1
//	X-Forwarded-For: 198.51.100.9, 203.0.113.7, 10.0.0.2
//	Cookie: theme=dark; uid=42
//
// has the method GET, the route /users/{id}, the user 42 and the address 203.0.113.7: the client
// wrote 198.51.100.9 itself, a proxy that is not trusted or the gateway added 203.0.113.7, and
// 10.0.0.2 is trusted.
package facts
