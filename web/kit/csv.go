package kit

import "strings"

// Cell is a text for a cell of a CSV file. A spreadsheet does not evaluate it as a formula.
func Cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
