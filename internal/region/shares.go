package region

import "time"

// Shares is what a node knows of the limits that are divided among regions (package sharing). The API shows it as it
// is.
type Shares struct {
	IntervalMS int64 `json:"interval_ms"`
	// Lost: it is not known what this region has lent, so that it uses the least part. Losses is how often that was so.
	Lost   bool  `json:"lost"`
	Losses int64 `json:"-"`
	// Failing: the state cannot be read or kept.
	Failing bool         `json:"failing"`
	Rules   []RuleShares `json:"rules"`
}

// RuleShares are those of one rule, in units of its limit.
type RuleShares struct {
	Rule string `json:"rule"`
	// Limit is all that is divided, Share what this region may spend now, and Unused what nobody may spend: it waits to
	// be lent or to be given back.
	Limit   int64         `json:"limit"`
	Share   int64         `json:"share"`
	Unused  int64         `json:"unused"`
	Regions []RegionShare `json:"regions"`
}

// RegionShare is one region and one rule, as this region knows it.
type RegionShare struct {
	Region string `json:"region"`
	// Own is its equal part. Asked is its demand within a window, nil if its last report is too old.
	Own   int64  `json:"own"`
	Asked *int64 `json:"asked"`
	// Lent is what it has of this region's part, and Borrowed what this region has of its part, both until Until, nil for
	// nothing.
	Lent     int64      `json:"lent"`
	Borrowed int64      `json:"borrowed"`
	Until    *time.Time `json:"until"`
}
