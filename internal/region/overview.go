package region

import "time"

// SkewLimit is the difference between clocks from which it is shown as a fault.
const SkewLimit = 2 * time.Second

// Overview is what a node knows of all regions.
type Overview struct {
	Self string
	// Interval is the time between two exports.
	Interval time.Duration
	Peers    []Status
	// Exported is how many buckets this node has exported, Waiting how many of them some region lacks, Refused how many
	// had no room, and Invalid how many messages were refused.
	Exported, Waiting, Refused, Invalid int64
	// Failing: the region's Redis does not answer the exchange.
	Failing bool
	Rules   []Estimate
	Shares  Shares
}

// Status is what a node knows of another region.
type Status struct {
	Name string
	// CutOff: for three intervals no node of this region has received updates from that one, or that one has accepted none
	// of this one. CutFor is for how long, and CutTotal how long since the start of the node, all in all.
	CutOff           bool
	CutFor, CutTotal time.Duration
	// LastUpdate is when the node last saw that updates had arrived, zero for never.
	LastUpdate time.Time
	// Set is the version of its rules when it last sent something.
	Set int64
	// LagNow and LagP99 are the time from a unit spent here to the moment at which the other region decides with it, of
	// the last message and of the last 256. Lags is how many there were.
	LagNow, LagP99 time.Duration
	Lags           int
	// Skew is how far its clock is ahead of the clock of this node, if SkewKnown.
	Skew      time.Duration
	SkewKnown bool
	// Sent and Received are bytes, Messages and Failures what this node has sent, Accepted the buckets in them.
	Sent, Received, Messages, Failures, Accepted int64
	// Failure is why the last message failed, "" if it did not, and FailingSince when the first one did after one that did
	// not.
	Failure      string
	FailingSince time.Time
	// Refuses: the region answers and refuses the messages of this node. Failure says why.
	Refuses bool
	// Calls are of keys that are at home there.
	Calls Calls
	// There and Here are the totals of what became of buckets: of those sent there, and of those received here.
	There, Here Fate
	// Refusal is why this node has last refused a message of that region, and RefusedAt when.
	Refusal   string
	RefusedAt time.Time
}

// ClocksApart reports whether the clocks of the region and of this node differ by more than SkewLimit.
func (s *Status) ClocksApart() bool { return s.SkewKnown && s.Skew.Abs() > SkewLimit }

// Fate says what became of the buckets in messages.
type Fate struct {
	// Applied buckets had units that were new, and Repeated ones did not. Shrunk contradict what was applied before, or
	// cannot be read in the store. Unknown are of no rule that spans regions in the receiving region.
	Applied  int `json:"applied"`
	Repeated int `json:"repeated"`
	Shrunk   int `json:"shrunk"`
	Unknown  int `json:"unknown"`
}

// Add adds another one.
func (f *Fate) Add(g Fate) {
	f.Applied, f.Repeated, f.Shrunk, f.Unknown = f.Applied+g.Applied, f.Repeated+g.Repeated, f.Shrunk+g.Shrunk,
		f.Unknown+g.Unknown
}

// Calls are what became of the decisions that a node has asked another region for, because their keys are at home there
// (package home).
type Calls struct {
	// Decided and Failed count since the start. Failing says why the last one failed, "" if it did not, and Since when the
	// first one failed after one that did not.
	Decided, Failed int64
	Failing         string
	Since           time.Time
}

// Estimate is by how much a rule may admit too much because of this region: the units of one key that the region spends
// before the other regions have received them, as a part of the limit. The published formula gives the sum over all
// regions.
type Estimate struct {
	Rule string
	// OverPercent is the estimate for the busiest key in the last ten to twenty seconds, and MaxOverPercent the bound
	// in the rule.
	OverPercent    float64
	MaxOverPercent int64
}

// Shares is what a node knows of the limits that are divided among regions (package share). The API shows it as it
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

// RuleShares are the shares of one rule, in units of its limit.
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
