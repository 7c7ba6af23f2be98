// Package playbook plays the examples of a documentation page against a whole
// server in this process, so that what the page prints is what happens. It is
// for tests.
//
// A page is Markdown. Each heading of the second level (## …) begins with a
// fresh server at noon of 2026-11-21 UTC; within it, fenced blocks are carried
// out in order:
//
//   - yaml: a rules file, put in force as the only one.
//   - play: requests, what they answer, and the time, which passes only here.
//   - play redis: the same, where the counters are in Redis; elsewhere it is
//     passed over. It may have the line "redis stops".
//
// Blocks in other languages are for the reader. A play:
//
//	# A comment.
//	at 2026-11-20T18:00:00+01:00
//	POST /ratelimit/check {"user": "42"}
//	-> 200 {"allowed": true, "remaining": 4, "lease": "$lease"}
//	after 1m30s
//	4x POST /ratelimit/check
//	   {"user": "42"}
//	-> 200 {"allowed": true}
//	POST /ratelimit/release {"lease": "$lease"}
//	-> 200
//
// A request may go on in indented lines, of which those like If-Match: "1" are
// headers and the rest is the body. An answer must have the status and every
// member that is printed, and may have more; lists must be as long as printed.
// "…" stands for any value. "$name" remembers a value the first time and is the
// same value later, in requests too. An indented line goes on with the answer.
package playbook
