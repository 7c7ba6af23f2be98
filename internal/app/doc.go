// Package app wires sluice together: it opens the stores, keeps the rule set
// fresh, serves, drains and stops, and carries out the commands that work on the
// database directly. It is the only place that knows every part; run.go is the
// page to read first.
//
// A worked example. On two nodes that share Postgres and Redis, an operator
// lowers a limit through node A at t=0. The transaction bumps the version of the
// rules from 7 to 8 and notifies; A reloads before it answers, B within a few
// milliseconds, or, should the notification be lost, within its poll interval of
// 1 s. Each compiles the whole set of version 8 and swaps one pointer. A check
// that began under version 7 ends under version 7.
package app
