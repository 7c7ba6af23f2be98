package region

import "sluice/limiter"

// Parts divides what is left of a limit among regions by their demand: as limiter.Divide does, with a floor
// of a quarter of an equal part, and equally what then remains. The parts add up to left.
func Parts(left int64, demands []int64) []int64 {
	n := int64(len(demands))
	if n == 0 {
		return nil
	}
	left = max(left, 0)
	parts := limiter.Divide(left, left/(4*n), demands)
	for _, p := range parts {
		left -= p
	}
	for i := range parts {
		more := left / (n - int64(i))
		if left%(n-int64(i)) > 0 {
			more++
		}
		parts[i] += more
		left -= more
	}
	return parts
}

// Cold says what a region may spend of a bucket before it has heard from the others.
type Cold uint8

const (
	// Open lets each region spend the whole limit, so that R regions together spend up to R limits, once.
	Open Cold = iota
	// Share lets each region spend an equal part, so that a user of one region may wait for the rest until
	// the others have been heard.
	Share
)

// Guard bounds what a region spends of one bucket between two pieces of news: at most its part, by demand,
// of what was left when the others last heard of it. It is a plain value.
type Guard struct {
	// Heard is Sums.Taken as the others have it.
	Heard int64
	// Part is what the region may take beyond it.
	Part int64
}

// ColdGuard is the guard of a bucket of which the others have not heard.
func ColdGuard(cold Cold, limit int64, regions int) Guard {
	if cold == Share {
		return Guard{Part: max(limit/int64(max(regions, 1)), min(limit, 1))}
	}
	return Guard{Part: limit}
}

// NewGuard is the guard of a region from the moment at which it learns that the others have its sums: heard
// is Sums.Taken of those, taken what it is now, used the units in the bucket now, demands what each region
// was asked for in the interval before, and self the region's own place among them.
//
// What was left when the others heard of it is what is left now and what the region has taken since: by now
// it knows what the others had spent by then.
func NewGuard(limit, used, taken, heard int64, demands []int64, self int) Guard {
	left := limit - used + (taken - heard)
	return Guard{Heard: heard, Part: Parts(left, demands)[self]}
}

// Room is how many units the region may still take if it has taken that many.
func (g Guard) Room(taken int64) int64 { return max(0, g.Heard+g.Part-taken) }

// Bound is the over-admission of regions that tell each other what they spend every interval ms, with a
// delay of so many ms: offered rate (units a second over all regions, evenly spread) times (delay +
// interval) times (regions-1)/regions, rounded up. On average it is half the interval. The units are those
// that the other regions admit while nobody has told of them yet.
func Bound(rate, delay, interval int64, regions int) int64 {
	n := int64(max(regions, 1))
	return (rate*(delay+interval)*(n-1) + 1000*n - 1) / (1000 * n)
}
