package limiter

// Part is what a region makes of an ask.
type Part struct {
	// Asked is the ask in its place. Its limit is the part of this region.
	Asked Ask
	// Limit is that of Asked without its Spare units, and Whole the count of the limit that it is a part of, 0 if the
	// limit is not divided.
	Limit Limit
	Whole int64
	// CutOff: another region is not heard of, and the rule says what this one may spend meanwhile. Shut: nothing, so that
	// Asked has a limit of 0. Limit is the whole one then.
	CutOff, Shut bool
	// Holders is how many regions decide by themselves while the home of the bucket cannot, each by an equal share, and
	// Elsewhere says that this home is another region. Both are only known after an error; 0 for a bucket without a home.
	Holders   int64
	Elsewhere bool
}
