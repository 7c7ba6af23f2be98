// Package words says in prose what a rule does, for people.
//
// A worked example. Of the rule {scope: user, route: /v1/charges, method: POST,
// limit: 100, window_ms: 60000}, Limit says "100 per minute per user", Match says
// "POST /v1/charges", and Summary says "POST requests to /v1/charges of the same
// user may number 100 per minute. What goes over is denied. While the counters
// cannot be reached, everything passes."
//
// Numbers and windows by themselves (rules.CountWords, rules.WindowWords) stay in
// package rules, because its plans name them too.
package words
