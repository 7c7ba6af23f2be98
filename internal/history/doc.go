// Package stats keeps and reads figures of what was decided: by second, minute, hour
// and day, for each rule and for all requests, and which keys, routes and tenants
// made the traffic.
//
// The last minutes are with the counters, where package fleet posts them. Everything
// older is in the rule database: a Writer on one node moves it there once a minute.
// A Reader answers from both.
package history
