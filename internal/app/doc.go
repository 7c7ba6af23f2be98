// Package app connects the parts of sluice: it opens the stores, keeps the rule set up
// to date, serves, drains and stops, and implements the commands that use the database
// directly. It is the only package that knows every part. Start with run.go.
//
// An example: nodes A and B share Postgres and Redis, and an operator lowers a limit
// through node A at t=0. The transaction increments the version of the rules from 7 to 8
// and notifies the nodes. A reloads before it responds, B within a few milliseconds, or,
// if the notification is lost, within 1 s. Each node compiles the
// set of version 8 and replaces one pointer. A check that began with version 7 ends with
// version 7.
package app
