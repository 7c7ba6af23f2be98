// Package playbook runs the examples of a documentation page against a complete
// server in this process, to test that the page is correct.
//
// A page is Markdown. Each heading of the second level (## …) begins with a
// new server at noon of 2026-11-21 UTC. The fenced blocks below it are run
// in order:
//
//   - yaml: a rules file, which replaces all rules.
//   - play: requests, expected answers, and changes of the time, which passes only here.
//   - play redis: the same, skipped unless the counters are in Redis. It may
//     have the line "redis stops".
//
// Blocks in other languages are not run. A play:
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
// A request may continue in indented lines. Lines like If-Match: "1" are
// headers, the others are the body. An answer must have the status and every
// member on the page, and may have more; lists must have the same length.
// "…" stands for any value. "$name" remembers a value the first time and stands
// for the same value afterwards, also in requests. An answer may continue in
// indented lines too.
package playbook
