// Package rulecopy stores the last valid rules and tokens of a node in a file, so that the
// node can start while the rules database is unavailable.
//
// An example: at 12:00:00 a node puts version 7 of the rules in force, 120 rules, and
// saves them with 3 tokens in a file of some 60 kB, mode 0600. At 14:30:00 the machine
// restarts while Postgres is unavailable. The node loads the file, verifies the checksum
// and that the file belongs to the configured database, and applies version 7. When
// Postgres is available again, the node loads everything from there and replaces the file.
//
// The file contains no secrets: as in the database, only hashes of tokens.
package rulecopy
