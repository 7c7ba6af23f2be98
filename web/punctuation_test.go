package web_test

import (
	"regexp"
	"testing"
)

// strayed is a mark of punctuation with a space before it, behind an element.
var strayed = regexp.MustCompile(`[^>]{0,40}</(?:time|a|code|span|strong|b)>\s+[.,;:](?:\s|<)`)

// A template writes a space between a component and the text below it, also before a full stop.
func TestGallery_NoSpaceStandsBeforePunctuation(t *testing.T) {
	for _, s := range visitGallery(t) {
		for _, found := range strayed.FindAllString(s.page.Body, -1) {
			t.Errorf("%s: %q", s.Name, found)
		}
	}
}
