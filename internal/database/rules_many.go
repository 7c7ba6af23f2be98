package database

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"reflect"
	"strings"

	"gorm.io/gorm"

	"sluice/rules"
)

// edits holds stored rules, and in the same order their new content.
type edits struct{ was, is []rules.Rule }

func (e *edits) add(was, is *rules.Rule) {
	e.was, e.is = append(e.was, *was), append(e.is, *is)
}

// seenRules reads rules within the change, as lockedRule reads one. A rule that was deleted, or whose version is not
// the seen one, gives ErrStale.
func (c *change) seenRules(seen []rules.Rule) ([]rules.Rule, error) {
	var rows []ruleRow
	if err := c.tx.Where("id IN ?", idsOf(seen)).Find(&rows).Error; err != nil {
		return nil, err
	}
	byID := make(map[int64]*ruleRow, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	found := make([]rules.Rule, len(seen))
	for i := range seen {
		row := byID[seen[i].ID]
		if row == nil || row.Version != seen[i].Version {
			return nil, rules.ErrStale
		}
		found[i] = row.rule()
	}
	return found, nil
}

func idsOf(list []rules.Rule) []int64 {
	ids := make([]int64, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

// replaceRules writes new content over rules that were admitted, records it, and sets the new
// version and times.
func (c *change) replaceRules(action string, e *edits) error {
	if len(e.is) == 0 {
		return nil
	}
	rows := make([]ruleRow, len(e.is))
	for i := range rows {
		row, err := rowOf(&e.is[i])
		if err != nil {
			return err
		}
		row.ID, row.Version, row.Seq = e.was[i].ID, e.was[i].Version+1, c.version
		row.CreatedAt, row.UpdatedAt = newRowTime(e.was[i].CreatedAt), c.at
		if err := row.setFormer(&e.was[i], &e.is[i], c.at); err != nil {
			return err
		}
		rows[i] = row
		c.writes(&row, &e.is[i])
		c.named.writes(&e.was[i], &e.is[i])
	}
	if err := c.updateRows(rows); err != nil {
		return err
	}
	for i := range rows {
		e.is[i] = rows[i].rule()
		if err := c.recordRule(action, e.is[i].Version, &e.was[i], &e.is[i]); err != nil {
			return err
		}
	}
	return nil
}

// updateRows writes rows with one statement. The version in its condition is a second safeguard,
// against a writer that does not use change.
func (c *change) updateRows(rows []ruleRow) error {
	statement := gorm.Statement{DB: c.tx, Context: c.tx.Statement.Context}
	if err := statement.Parse(&ruleRow{}); err != nil {
		return err
	}
	speaks := dialect(c.tx.Name())
	var set, columns []string
	for _, name := range statement.Schema.DBNames {
		columns = append(columns, "j.value ->> '"+name+"' AS "+name)
		switch name {
		case "id", "created_at":
		default:
			set = append(set, name+" = n."+name)
		}
	}
	data, err := jsonRows(&statement, rows)
	if err != nil {
		return err
	}
	from := "json_populate_recordset(NULL::rules, ?::json)"
	if speaks == dialectSQLite {
		from = "(SELECT " + strings.Join(columns, ", ") + " FROM json_each(?) AS j)"
	}
	res := c.tx.Exec("UPDATE rules SET "+strings.Join(set, ", ")+" FROM "+from+" AS n"+
		" WHERE rules.id = n.id AND rules.version = n.version - 1", data)
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected != int64(len(rows)) {
		return rules.ErrStale
	}
	return nil
}

// jsonRows returns a JSON array with an object for each row, by column names. NULL is left out.
func jsonRows(statement *gorm.Statement, rows []ruleRow) (string, error) {
	var out bytes.Buffer
	sign := byte('[')
	for i := range rows {
		out.WriteByte(sign)
		sign = '{'
		for _, f := range statement.Schema.Fields {
			field, _ := f.ValueOf(statement.Context, reflect.ValueOf(&rows[i]).Elem())
			text, err := jsonOf(field)
			if err != nil {
				return "", err
			}
			if text == nil {
				continue
			}
			out.WriteByte(sign)
			out.WriteString(`"` + f.DBName + `":`)
			out.Write(text)
			sign = ','
		}
		out.WriteByte('}')
	}
	out.WriteByte(']')
	return out.String(), nil
}

// jsonOf returns the JSON of a column's value, nil for NULL.
func jsonOf(field any) ([]byte, error) {
	if text, ok := field.(document); ok {
		return []byte(text), nil
	}
	value, err := driver.DefaultParameterConverter.ConvertValue(field)
	if err != nil || value == nil {
		return nil, err
	}
	return json.Marshal(value)
}

// removeRules deletes rules with their overrides and records it.
func (c *change) removeRules(was []rules.Rule) error {
	for i := range was {
		if err := c.countPatterns(&was[i], nil); err != nil {
			return err
		}
	}
	for i := range was {
		c.named.gone = append(c.named.gone, was[i].Name)
	}
	ids := idsOf(was)
	if err := c.removeOverrides(ids); err != nil {
		return err
	}
	res := c.tx.Where("id IN ?", ids).Delete(&ruleRow{})
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected != int64(len(was)) {
		return rules.ErrStale
	}
	for i := range was {
		if err := c.recordRule(actionDelete, was[i].Version+1, &was[i], nil); err != nil {
			return err
		}
	}
	return nil
}
