package limiter

// Part is what a region makes of an ask.
type Part struct {
	// Asked is the ask that replaces it. Its limit is the part of this region.
	Asked Ask
	// Limit is the limit of Asked without its Spare units. Whole is the count of the whole limit, 0 if the limit is not
	// divided.
	Limit Limit
	Whole int64
	// CutOff: this region receives no updates from another one, and the rule says how much it may spend until then.
	// Shut: it may spend nothing, so the limit of Asked is 0, and Limit is the whole limit.
	CutOff, Shut bool
	// Holders is the number of regions that decide by an equal share while the home of the bucket cannot decide.
	// Elsewhere says that this home is another region. Both are known only after an error, and are zero for a bucket
	// without a home.
	Holders   int64
	Elsewhere bool
}
