package reply

import (
	"time"

	"sluice/api/decide"
)

// TimeoutHeader says how long the caller waits for the answer, in ms: an integer from 1 to 1000.
const TimeoutHeader = "Sluice-Timeout-Ms"

// maxTimeoutDigits is the length of the longest value of TimeoutHeader.
const maxTimeoutDigits = 4

// TimeoutIn returns the time that headers say, by their canonical names, and 0 if they say none. The error is a problem
// document that names the header.
func TimeoutIn(h map[string][]string) (time.Duration, error) {
	values := h[TimeoutHeader]
	if len(values) == 0 {
		return 0, nil
	}
	if d := ParseTimeout(values[0]); d > 0 && len(values) == 1 {
		return d, nil
	}
	return 0, Malformed.Problem("The header " + TimeoutHeader + " must be an integer from 1 to 1000, given once.")
}

// ParseTimeout reads a value of TimeoutHeader. It returns 0 for what is not valid.
func ParseTimeout[T string | []byte](value T) time.Duration {
	if len(value) == 0 || len(value) > maxTimeoutDigits || value[0] == '0' {
		return 0
	}
	ms := 0
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0
		}
		ms = ms*10 + int(value[i]-'0')
	}
	if d := time.Duration(ms) * time.Millisecond; d <= decide.MaxPatience {
		return d
	}
	return 0
}
