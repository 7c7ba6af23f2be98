package view

import (
	"net/url"
	"testing"
)

// TestQuery_KeepsAPercentThatPeopleTyped: the form shows an invisible character as %XX, which is read back, while a %41
// that people typed into it stays what it is.
func TestQuery_KeepsAPercentThatPeopleTyped(t *testing.T) {
	for typed, want := range map[string]string{"%41": "%41", "a%0Ab": "a\nb", "%0A%41": "\n%41", "%2541": "%41"} {
		q := NewQuery("/x", url.Values{"q": {typed}, escapedParam: {"q"}}, "q")
		if q.Get("q") != want {
			t.Errorf("%s is read as %q, want %q", typed, q.Get("q"), want)
		}
	}
}
