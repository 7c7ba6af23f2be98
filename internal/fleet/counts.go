package fleet

import (
	"strconv"
	"strings"
)

// Counts are the decisions of a period: on requests, or by the limits of one rule.
type Counts struct {
	// Allowed and Denied were enforced.
	Allowed, Denied int64
	// Shadow and Candidate would have been denied by a limit on trial.
	Shadow, Candidate int64
	// Degraded were decided by a fail mode; Allowed and Denied include them.
	Degraded int64
}

// Add adds o.
func (c *Counts) Add(o Counts) {
	c.Allowed += o.Allowed
	c.Denied += o.Denied
	c.Shadow += o.Shadow
	c.Candidate += o.Candidate
	c.Degraded += o.Degraded
}

// Total is the number of enforced decisions.
func (c Counts) Total() int64 { return c.Allowed + c.Denied }

// weight orders rules by their activity.
func (c Counts) weight() int64 { return c.Allowed + 8*(c.Denied+c.Shadow+c.Candidate+c.Degraded) }

func (c Counts) figures() [5]int64 {
	return [5]int64{c.Allowed, c.Denied, c.Shadow, c.Candidate, c.Degraded}
}

func countsOf(f [5]int64) Counts {
	return Counts{Allowed: f[0], Denied: f[1], Shadow: f[2], Candidate: f[3], Degraded: f[4]}
}

// pack writes the figures with spaces between them.
func (c Counts) pack() string {
	var b []byte
	for i, n := range c.figures() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// unpack reads what pack wrote. Anything else counts as zero, because figures on a
// screen are not worth an error.
func unpack(s string) Counts {
	var f [5]int64
	for i := range f {
		word, rest, _ := strings.Cut(s, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return Counts{}
		}
		f[i], s = n, rest
	}
	return countsOf(f)
}
