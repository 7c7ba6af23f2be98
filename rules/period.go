package rules

import "strconv"

// CountWords formats a number with commas between thousands: "1,240".
func CountWords(n int64) string {
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

var wordUnits = []struct {
	ms        int64
	one, many string
}{
	{604_800_000, "week", "weeks"}, {86_400_000, "day", "days"}, {3_600_000, "hour", "hours"},
	{60_000, "minute", "minutes"}, {1000, "second", "seconds"},
}

// WindowWords formats milliseconds as people say them after per: "minute",
// "15 minutes", or "1,500 ms" if it is not a whole number of any larger unit.
func WindowWords(ms int64) string {
	for _, u := range wordUnits {
		if ms >= u.ms && ms%u.ms == 0 {
			if ms == u.ms {
				return u.one
			}
			return CountWords(ms/u.ms) + " " + u.many
		}
	}
	return CountWords(ms) + " ms"
}

// PeriodWords returns what a rule's limit is per: "minute", "calendar month".
func (r *Rule) PeriodWords() string {
	if r.Calendar != nil {
		return "calendar " + r.Calendar.Every
	}
	return WindowWords(r.WindowMS)
}
