package rulefile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
)

// Bounds of one file of overrides.
const (
	// MaxOverrideFile is the largest file, in bytes.
	MaxOverrideFile = 16 << 20
	// MaxOverrideLines is the largest number of overrides in one file.
	MaxOverrideLines = 200_000
)

// overrideColumns is the header of a file of overrides.
var overrideColumns = func() (names []string) {
	for _, f := range rules.OverrideFields() {
		names = append(names, f.Name)
	}
	return names
}()

// ParseOverrides parses a file of overrides: CSV (RFC 4180) in UTF-8 whose first line names
// columns from key, limit, burst, unlimited, blocked, calendar, reason and expires_at, in any order. Only
// key is required. An empty cell means that the setting is not given; truths are true or false;
// calendar is read by rules.ParseOverrideCalendar; expires_at is RFC 3339. rules.Override.Resolve validates keys and
// limits later. The error is a
// *field.ValidationError with the field file, or fields such as line[17] or line[17].limit; with
// the latter two it also returns the lines that could be read.
func ParseOverrides(file []byte) ([]rules.ImportedOverride, error) {
	refuse := func(format string, args ...any) ([]rules.ImportedOverride, error) {
		return nil, &field.ValidationError{Fields: []field.Problem{{Field: "file", Message: fmt.Sprintf(format, args...)}}}
	}
	if len(file) > MaxOverrideFile {
		return refuse("must not be larger than %d bytes", MaxOverrideFile)
	}
	if !utf8.Valid(file) {
		return refuse("must be valid UTF-8")
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(file, []byte("\ufeff")))) // spreadsheets begin with that mark
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return refuse("must begin with the line %s", strings.Join(overrideColumns, ","))
	}
	columns := slices.Clone(header)
	for i, name := range columns {
		if !slices.Contains(overrideColumns, name) || slices.Contains(columns[:i], name) {
			return refuse("must begin with the line %s; column %d is unknown or repeated", strings.Join(overrideColumns, ","),
				i+1)
		}
	}
	if !slices.Contains(columns, "key") {
		return refuse("must have a column key")
	}
	var items []rules.ImportedOverride
	var bad []field.Problem
	for len(bad) < rules.MaxOverrideErrors {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) && errors.Is(err, csv.ErrFieldCount) {
			bad = append(bad, field.Problem{Field: fmt.Sprintf("line[%d]", broken.Line),
				Message: fmt.Sprintf("must have %d cells, like the first line", len(columns))})
			continue
		}
		if broken != nil {
			return refuse("line %d cannot be read: %s", broken.Line, broken.Err)
		}
		if err != nil {
			return refuse("cannot be read")
		}
		if len(items) == MaxOverrideLines {
			return refuse("must not have more than %d overrides; import several files", MaxOverrideLines)
		}
		line, _ := r.FieldPos(0)
		item, good := rules.ImportedOverride{Line: line}, true
		for i, cell := range cells {
			if msg := setCell(&item.Override, columns[i], cell); msg != "" {
				bad, good = append(bad, field.Problem{Field: fmt.Sprintf("line[%d].%s", line, columns[i]), Message: msg}), false
			}
		}
		if good {
			items = append(items, item)
		}
	}
	if len(bad) > 0 {
		return items, &field.ValidationError{Fields: bad}
	}
	return items, nil
}

// setCell parses one cell and returns a message if it is invalid, else "".
func setCell(o *rules.Override, column, cell string) string {
	f := rules.OverrideFieldNamed(column)
	if text, ok := f.At(o).(*string); ok {
		*text = strings.Clone(uncover(cell))
		return ""
	}
	if cell == "" {
		return ""
	}
	switch p := f.At(o).(type) {
	case **int64:
		n, err := strconv.ParseInt(cell, 10, 64)
		if err != nil {
			return "must be an integer"
		}
		*p = &n
	case *bool:
		*p = strings.EqualFold(cell, "true") // spreadsheets write TRUE
		if !*p && !strings.EqualFold(cell, "false") {
			return "must be true or false"
		}
	case **rules.OverrideCalendar:
		c, err := rules.ParseOverrideCalendar(cell)
		if err != nil {
			return err.Error()
		}
		*p = c
	case **time.Time:
		at, err := time.Parse(time.RFC3339, cell)
		if err != nil {
			return "must be a time such as 2026-12-31T00:00:00Z"
		}
		*p = &at
	}
	return ""
}

// OverrideHeader returns the first line of a file of overrides.
func OverrideHeader() []string { return slices.Clone(overrideColumns) }

// OverrideRecord returns one override as a line of a file that ParseOverrides reads. A key or a
// reason that a spreadsheet would run as a formula gets an apostrophe before it.
func OverrideRecord(o *rules.Override) []string {
	fields := rules.OverrideFields()
	cells := make([]string, len(fields))
	for i := range fields {
		switch v := fields[i].Value(o).(type) {
		case nil:
		case string:
			if _, written := fields[i].At(o).(*string); written {
				v = cover(v)
			}
			cells[i] = v
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return cells
}

// cover writes a text so that no spreadsheet evaluates it as a formula and uncover returns it unchanged.
func cover(s string) string {
	if chars.IsFormula(s) {
		return "'" + s
	}
	return s
}

// uncover reverts cover.
func uncover(s string) string {
	if strings.HasPrefix(s, "'") && chars.IsFormula(s) {
		return s[1:]
	}
	return s
}
