// Package page writes the results of the programs of bench into the pages of docs.
package page

import (
	"fmt"
	"os"
	"strings"
)

// Splice replaces the text between two marks in a page. They name the target of make that writes it, and the part.
func Splice(page, target, part, text string) error {
	markBegin := "<!-- written by make " + target + ": begin " + part + " -->"
	markEnd := "<!-- written by make " + target + ": end " + part + " -->"
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), markBegin)
	_, tail, ok2 := strings.Cut(rest, markEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the marks %q and %q", page, markBegin, markEnd)
	}
	return os.WriteFile(page, []byte(head+markBegin+"\n\n"+text+"\n"+markEnd+tail), 0o644) //nolint:gosec // documentation
}
