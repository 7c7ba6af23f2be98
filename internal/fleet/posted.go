package fleet

import (
	"strconv"
	"strings"

	"sluice/internal/history"
)

// posted are figures in the order in which nodes post them.
type posted [10]int64

func post(f history.Figures) posted {
	return posted{f.Allowed, f.Denied, f.WouldDeny, f.Degraded, f.Soft, f.Elastic, f.Shed, f.WouldAllow, f.Use, f.Failed}
}

func (p posted) figures() history.Figures {
	return history.Figures{Allowed: p[0], Denied: p[1], WouldDeny: p[2], Degraded: p[3], Soft: p[4], Elastic: p[5],
		Shed: p[6], WouldAllow: p[7], Use: p[8], Failed: p[9]}
}

// pack writes figures with spaces between them.
func pack(f history.Figures) string {
	var b []byte
	for i, n := range post(f) {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// unpack reads what pack wrote. Anything else counts as zero, because figures on a screen are not worth an error.
func unpack(s string) history.Figures {
	var p posted
	for i := range p {
		word, rest, _ := strings.Cut(s, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return history.Figures{}
		}
		p[i], s = n, rest
	}
	return p.figures()
}
