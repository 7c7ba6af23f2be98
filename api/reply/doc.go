// Package reply makes the answers of every endpoint, as plain data: the status that a gateway sends to its client, the
// client headers, the body of a denial, and problem documents. It uses no protocol library; each endpoint sends the
// data itself.
//
// An example: a denial by the limit charges-per-user, 5 per second, with a wait of 190 ms
// has the status 429, the headers Retry-After: 1 and
// RateLimit-Policy: "charges-per-user";q=5;w=1 among others, and a body of type
// quota-exceeded that names the limit.
package reply
