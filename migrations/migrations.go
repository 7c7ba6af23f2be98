// Package migrations holds the schema of the rules database as numbered SQL, one folder a dialect. The two dialects
// have the same tables and columns; internal/database runs them with goose.
//
// To change the schema, add the next number to both folders. A file that was released is never edited.
package migrations

import "embed"

// Postgres holds the folder postgres, SQLite the folder sqlite.
var (
	//go:embed postgres/*.sql
	Postgres embed.FS
	//go:embed sqlite/*.sql
	SQLite embed.FS
)
