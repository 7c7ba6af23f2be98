// Package database stores rules, their history, API tokens and the audit log in Postgres or in an
// embedded SQLite file. It is the only package that uses gorm; its rows are converted to
// rules.Rule, access.Token and so on here.
//
// Every change has an actor and is one transaction. It first raises the row of versions (which
// also makes writers take turns), then writes the row, its revision and its audit entry, and asks
// Postgres to notify the other nodes. All of it happens or none of it.
//
// A worked example, with no rule yet (versions: rules 0):
//
//	CreateRule(ctx, actor, a)               rule 1 version 1   versions: rules 1
//	UpdateRule(ctx, actor, a', 1)           rule 1 version 2   versions: rules 2
//	UpdateRule(ctx, actor, a'', 1)          rules.ErrStale     versions: rules 2
//	RollbackRule(ctx, actor, 1, 1, 2)       rule 1 version 3   versions: rules 3, content as in version 1
//	DeleteRule(ctx, actor, 1, 0)            gone               versions: rules 4
//	RuleHistory(ctx, 1, 0, 0)               versions 4 (delete), 3, 2, 1
//
// Errors are the kinds of package rules: ErrNotFound, ErrNameTaken, ErrStale, ErrUnavailable and
// *ValidationError. Test them with errors.Is and errors.As. Every call has a deadline, so a
// database that hangs gives ErrUnavailable.
package database
