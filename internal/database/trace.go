package database

import (
	"context"
	"errors"

	"gorm.io/gorm"
)

// Trace begins the span of an operation, if the span of ctx is recorded. operation is a constant text of this package,
// such as "change rules" or "query rules". inner is the context of the operation. Call end with the error of the
// operation when it ends.
type Trace func(ctx context.Context, operation string) (inner context.Context, end func(error))

// spanKey is where a statement keeps the function that ends its span.
const spanKey = "sluice:end_span"

// traceStatements makes a span of each statement, named after what it does and its table. A span contains neither the
// statement nor its values.
func (d *DB) traceStatements() error {
	if d.trace == nil {
		return nil
	}
	err := traceStatements(d.write, d.trace)
	if d.read != d.write {
		err = errors.Join(err, traceStatements(d.read, d.trace))
	}
	return err
}

func traceStatements(g *gorm.DB, trace Trace) error {
	begin := func(verb string) func(*gorm.DB) {
		return func(tx *gorm.DB) {
			operation := verb
			if table := tx.Statement.Table; table != "" {
				operation += " " + table
			}
			_, end := trace(tx.Statement.Context, operation)
			tx.InstanceSet(spanKey, end)
		}
	}
	end := func(tx *gorm.DB) {
		value, _ := tx.InstanceGet(spanKey)
		end, ok := value.(func(error))
		switch {
		case !ok:
		case errors.Is(tx.Error, gorm.ErrRecordNotFound):
			end(nil)
		default:
			end(classify(tx.Statement.Context, tx.Error))
		}
	}
	on := g.Callback()
	return errors.Join(
		on.Create().Before("*").Register("sluice:begin_create", begin("create")),
		on.Create().After("*").Register("sluice:end_create", end),
		on.Query().Before("*").Register("sluice:begin_query", begin("query")),
		on.Query().After("*").Register("sluice:end_query", end),
		on.Update().Before("*").Register("sluice:begin_update", begin("update")),
		on.Update().After("*").Register("sluice:end_update", end),
		on.Delete().Before("*").Register("sluice:begin_delete", begin("delete")),
		on.Delete().After("*").Register("sluice:end_delete", end),
		on.Row().Before("*").Register("sluice:begin_rows", begin("rows")),
		on.Row().After("*").Register("sluice:end_rows", end),
		on.Raw().Before("*").Register("sluice:begin_execute", begin("execute")),
		on.Raw().After("*").Register("sluice:end_execute", end),
	)
}
