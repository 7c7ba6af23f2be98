package bind

import (
	"regexp"
	"strconv"
	"strings"
)

// withCommas matches a number with commas between thousands, as the console writes it.
var withCommas = regexp.MustCompile(`^-?\d{1,3}(,\d{3})+$`)

// parseWhole reads a whole number as people write it: with blanks or commas between thousands, or without.
func parseWhole(text string) (int64, error) {
	text = strings.NewReplacer(" ", "", "\u00a0", "", "\u202f", "").Replace(text)
	if withCommas.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	return strconv.ParseInt(text, 10, 64)
}
