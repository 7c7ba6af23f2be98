package doctor

import (
	"fmt"
	"time"

	"sluice/internal/attention"
	"sluice/rules/quantity"
)

// The findings.
const (
	DeniesMore      = "denies_more"
	MatchesNothing  = "matches_nothing"
	DeniesMost      = "denies_most"
	TooStrict       = "too_strict"
	Abuse           = "abuse"
	UselessInBursts = "useless_in_bursts"
	WindowBoundary  = "window_boundary"
	Shadowed        = "shadowed"
	FarAboveUse     = "far_above_use"
	UnusedOverride  = "unused_override"
	QuietTrial      = "quiet_trial"
	ConditionFailed = "condition_failed"
	UnguardedField  = "unguarded_field"
)

// Enough is the fewest requests in a day that are evidence.
const Enough = enoughInADay

// The thresholds. Kinds describes them for people.
const (
	// week is what slow findings look at, day what the other ones do: whole hours that have ended.
	week = 7 * 24 * time.Hour
	day  = 24 * time.Hour
	// enoughInAWeek and enoughInADay are the fewest requests, or denials, that are evidence.
	enoughInAWeek = 1000
	enoughInADay  = 100
	// mostDenied is the share of denials, in percent, of a rule that denies nearly everything.
	mostDenied = 95
	// manyKeys is how many keys are many.
	manyKeys = 10
	// littleDenied is the largest share of a key's requests, in percent, that is denied if it is a little above the limit.
	littleDenied = 20
	// nearlyAll is, in percent, how many of the keys and of the minutes are like that if the rule is too strict.
	nearlyAll = 90
	// fewKeys and abuseShare: so many keys make this share of the denials, in percent, if it is abuse.
	fewKeys    = 3
	abuseShare = 80
	// burstTimes is how many times the rate passes in a second, and burstShare the share of the limit, in percent, if the
	// rule is useless in bursts. burstLeast is the fewest requests that are a burst.
	burstTimes = 10
	burstShare = 50
	burstLeast = 10
	// boundaryShare is what passes in less than a window, in percent of the limit, if the boundary of a window shows.
	boundaryShare = 150
	// littleUsed is the highest use of a limit, in percent, that is far above it.
	littleUsed = 20
)

// Kind describes a finding.
type Kind struct {
	// Name is one of the constants, Title what people read. When says when it is found.
	Name, Title, When string
}

// Kinds are the findings, with their thresholds.
var Kinds = []Kind{
	{DeniesMore, "Denies more since an edit", attention.RiseWhen},
	{MatchesNothing, "Matches nothing",
		"the rule decided no request for a week"},
	{DeniesMost, "Denies nearly everything",
		fmt.Sprintf("in the last day, at least %d%% of at least %d requests were denied",
			mostDenied, enoughInADay)},
	{TooStrict, "Too strict",
		fmt.Sprintf("in the last day, at least %d keys were denied; %d%% of them had at most %d%% of their "+
			"requests denied, or all of them together, if they are too many to be known one by one; and in %d%% "+
			"of the minutes with denials, or in the minute after, more passed than was denied", manyKeys, nearlyAll,
			littleDenied, nearlyAll)},
	{Abuse, "Few keys make most denials",
		fmt.Sprintf("in the last day, at most %d of at least %d keys made at least %d%% of at least %d "+
			"denials", fewKeys, manyKeys, abuseShare, enoughInADay)},
	{UselessInBursts, "Useless in bursts",
		fmt.Sprintf("in the worst second of the last day, a key passed at least %d times, which is at least "+
			"%d times limit/window and at least %d%% of the limit", burstLeast, burstTimes, burstShare)},
	{WindowBoundary, "The boundary of the window shows",
		fmt.Sprintf("in less than a fixed window, a key passed at least %d%% of the limit", boundaryShare)},
	{Shadowed, "A stricter rule decides first",
		fmt.Sprintf("in a week, the rule denied none of at least %s requests, and a stricter rule that "+
			"applies to all of them denied some", quantity.Amount(enoughInAWeek))},
	{FarAboveUse, "Far above real use",
		fmt.Sprintf("in a week of at least %s requests, no key used more than %d%% of the limit",
			quantity.Amount(enoughInAWeek), littleUsed)},
	{UnusedOverride, "An override that nobody uses",
		"every key of seven days is known, and no request had the key of the override; or the " +
			"rule decided no request for a week"},
	{QuietTrial, "Quiet for a week",
		fmt.Sprintf("in a week of at least %s requests, the shadow rule or the candidate would have changed "+
			"none", quantity.Amount(enoughInAWeek))},
	{ConditionFailed, "The condition fails",
		"in the last day, the condition of the rule failed for a request, which counts as true"},
	{UnguardedField, "Requests without the field pass",
		"in the last day, the rule limited requests by the field of its weight, its condition does not use fields, and " +
			"no rule with limit 0 has a condition on that field"},
}

// Title is what people read for a finding.
func Title(finding string) string {
	for i := range Kinds {
		if Kinds[i].Name == finding {
			return Kinds[i].Title
		}
	}
	return finding
}

// Finding is what is remarkable about a rule.
type Finding struct {
	// Rule is the name of the rule, Finding one of the constants.
	Rule    string `json:"rule"`
	Finding string `json:"finding"`
	// Text says it in a sentence, for people.
	Text string `json:"text"`
	// Numbers are the evidence. Names that end in _percent are percentages, all other ones are counts.
	Numbers map[string]int64 `json:"numbers"`
	// Since is the beginning of the time that the numbers cover.
	Since time.Time `json:"since"`
	// Link is the path of the page of the console that shows more.
	Link string `json:"link"`
}
