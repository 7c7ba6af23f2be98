package quantity

import (
	"math"
	"strconv"
	"strings"
)

// Amount writes a number with commas between thousands: "1,240".
func Amount(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// About is Amount of an estimate, rounded to a whole number.
func About(n float64) string { return Amount(int64(math.Round(n))) }

// Decimal writes a number that is not negative with the decimals that it has: "1.25", "2", "1,240.5".
func Decimal(n float64) string {
	whole, rest, found := strings.Cut(strconv.FormatFloat(n, 'f', -1, 64), ".")
	if i, err := strconv.ParseInt(whole, 10, 64); err == nil {
		whole = Amount(i)
	}
	if found {
		return whole + "." + rest
	}
	return whole
}

// Plural is Amount with its noun: "1 rule", "2 rules".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Amount(n) + " " + noun + "s"
}

// Rate writes a number per second: "1,240/s", "0.3/s".
func Rate(perSecond float64) string {
	switch {
	case perSecond <= 0 || perSecond >= 9.95:
		return About(perSecond) + "/s"
	case perSecond < 0.05:
		return "under 0.1/s"
	}
	return tenths(perSecond) + "/s"
}

// RoundRate writes a round number per second, such as a tick of an axis, with the decimals that it has: "2,000/s",
// "0.005/s".
func RoundRate(perSecond float64) string { return Decimal(perSecond) + "/s" }

// Bytes writes a number of bytes: "512 B", "42.5 kB", "1.8 MB".
func Bytes(n int64) string {
	f, unit := float64(n), "B"
	for _, larger := range []string{"kB", "MB", "GB", "TB"} {
		if f < 1000 {
			break
		}
		f, unit = f/1000, larger
	}
	if unit == "B" {
		return Amount(n) + " B"
	}
	return tenths(f) + " " + unit
}

// Digits writes a number that is a name and no amount, such as a version, a status or a line: without commas.
func Digits[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// tenths writes a number with one decimal.
func tenths(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
