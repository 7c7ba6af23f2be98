// Package attention finds who is denied and perhaps should not be: one key that makes most denials of a rule, a rule
// that denies more since an edit, and an outage of Redis in which fail modes decide.
//
// Find is a pure function from facts to at most five findings, ordered by the requests denied in the last minute.
// RiseOf is the part of it that package doctor also uses. A Reader reads the facts of all nodes. Nothing is stored, and
// unknown figures are no evidence.
//
// One worked example: search-per-user had a limit of 60 a minute, and 5 of 600 requests were denied in the ten minutes
// before version 2, which cut the limit to 3. In the minute since, 61 of 100 requests were denied. That is 61 % against
// 0.8 %, so there is a finding with the Rise of version 2, whose Times is 73. In the same minute charges-per-user
// denied 3,000 requests, 2,850 of them of user:flood-9. That is 95 %, at least half, so there is a finding with that
// Key, and it comes first.
package attention
