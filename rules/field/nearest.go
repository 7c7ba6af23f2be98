package field

import "strings"

// maxNear is the length of the longest name that is compared, in bytes, so that the time of Nearest is bounded.
const maxNear = 64

// Nearest returns the known name that the writer of name may have meant, "" for none. It is the first known name that
// continues name after an underscore, as window_ms continues window, or the one that the fewest edits make of name.
// Edits that change more than a third of name do not count. A name above 64 bytes has no nearest one.
func Nearest(name string, known []string) (near string) {
	if len(name) > maxNear {
		return ""
	}
	for _, k := range known {
		if strings.HasPrefix(k, name+"_") {
			return k
		}
	}
	least := len(name)/3 + 1
	for _, k := range known {
		if n := edits(name, k); n < least {
			near, least = k, n
		}
	}
	return near
}

// edits is the number of bytes to insert, delete or replace that make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: from the part of a so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
