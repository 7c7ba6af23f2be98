package fleet

import (
	"strconv"
	"strings"

	"sluice/internal/stats"
)

// posted are figures in the order in which nodes post them. The first five places are those of earlier versions, which
// counted shadow rules and candidates apart and read no more than five; the last two came after the others.
type posted [11]int64

func post(f stats.Figures) posted {
	return posted{f.Allowed, f.Denied, f.WouldDeny, 0, f.Degraded, f.Soft, f.Elastic, f.Shed, f.WouldAllow, f.Use,
		f.Failed}
}

func (p posted) figures() stats.Figures {
	return stats.Figures{Allowed: p[0], Denied: p[1], WouldDeny: p[2] + p[3], Degraded: p[4], Soft: p[5], Elastic: p[6],
		Shed: p[7], WouldAllow: p[8], Use: p[9], Failed: p[10]}
}

// pack writes figures with spaces between them.
func pack(f stats.Figures) string {
	var b []byte
	for i, n := range post(f) {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// unpack reads what pack wrote, here or in an earlier version. Anything else counts as zero, because figures on a
// screen are not worth an error.
func unpack(s string) stats.Figures {
	var p posted
	for i := range p {
		if s == "" && i >= 5 {
			break
		}
		word, rest, _ := strings.Cut(s, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return stats.Figures{}
		}
		p[i], s = n, rest
	}
	return p.figures()
}
