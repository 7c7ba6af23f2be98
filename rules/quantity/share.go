package quantity

import "strings"

// Share writes a part of a whole in percent: "47%", "2.4%", "99.7%". It is 0% only if the part is 0, and 100% only if
// the part is the whole. Of nothing, it is 0%.
func Share(part, whole int64) string {
	switch {
	case whole <= 0 || part <= 0:
		return "0%"
	case part == whole:
		return "100%"
	case part > whole:
		return Percent(max(100.01, float64(part)/float64(whole)*100))
	}
	return Percent(min(99.99, float64(part)/float64(whole)*100))
}

// Percent writes a percentage as Share does.
func Percent[N int64 | float64](n N) string {
	p := float64(n)
	switch {
	case p <= 0:
		return "0%"
	case p < 0.1:
		return "under 0.1%"
	case p > 99.9 && p < 100:
		return "over 99.9%"
	case p > 100 && p < 100.1:
		return "over 100%"
	case p < 9.95 || p >= 99 && p <= 101:
		return strings.TrimSuffix(tenths(p), ".0") + "%"
	}
	return About(p) + "%"
}
