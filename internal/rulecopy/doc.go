// Package rulecopy keeps the last good rules and tokens of a node in a file, so
// that the node can start and decide while the rule database is away.
//
// A worked example. At 12:00:00 a node puts version 7 of the rules in force, 120
// rules, and saves them with 3 tokens: one file of some 60 kB, mode 0600. At
// 14:30:00 the machine restarts and Postgres does not answer. The node loads the
// file, finds the checksum right and the file saved from the database that it is
// configured for, and decides by version 7, two and a half hours old. When
// Postgres answers, everything is loaded from there and the file is replaced.
//
// The file holds no secret: of a token only its hash, as in the database.
package rulecopy
