// Package reply has what every face sends, as plain data: the status that a
// gateway answers its client with, the client headers, the body of a denial, and
// problem documents. It knows no protocol library; a face writes the data out.
//
// A worked example. The Denied answer of limit charges-per-user, 5 a second, with
// 190 ms to wait has Status 429, the headers Retry-After: 1 and
// RateLimit-Policy: "charges-per-user";q=5;w=1 among others, and a body of the
// type quota-exceeded that names the limit.
package reply
