package updates

// Bound is the over-admission of regions that send each other their spent units every interval ms, with a delay in ms:
// offered rate (units per second over all regions, evenly spread) times (delay + interval) times (regions-1)/regions,
// rounded up. On average it is half the interval. The units are those that the other regions admit before an update has
// arrived.
func Bound(rate, delay, interval int64, regions int) int64 {
	n := int64(max(regions, 1))
	return (rate*(delay+interval)*(n-1) + 1000*n - 1) / (1000 * n)
}
