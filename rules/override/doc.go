// Package override holds every exception from a rule that is in force: tables of
// hashes for exact keys, ordered tables for networks and wildcards.
//
// A worked example. Rule 7 allows 5 a second per user. A Row gives {user:42} a
// limit of 50, another one blocks what begins with {user:bad-. Edit and Done make
// a Table of them. Of finds those of rule 7; there Exact finds for {user:42} the
// Effect that makes 50 of the limit, and Longest finds the wildcard for
// {user:bad-9. The table keeps a hash of {user:42} only, and Write writes no more.
//
// Whom an override is for, and who may make one, is known to package rules.
package override
