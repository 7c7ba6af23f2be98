package limiter

import (
	"cmp"
	"slices"
)

// Divide divides limit units among holders so that the smallest share is as large as possible, then the
// second smallest, and so on (max-min fairness). No share exceeds what its holder needs: its demand, or
// floor if that is more, so that a holder that is silent can begin at once. The result has the order of
// demands.
//
// The shares add up to limit, or to the sum of all needs if that is less. A holder whose need is not met gets at most
// one unit less than any other holder, and only if the other comes first. More demand never means a smaller share.
// Negative numbers count as 0, and floor as at most an equal part of limit. Nothing is rounded up and nothing
// overflows.
//
// The algorithm is progressive filling, also called water-filling: the holders with the smallest need
// get it, as long as that is at most an equal part of what is left; the others divide the rest equally
// (Bertsekas and Gallager, Data Networks, section 6.5.2).
func Divide(limit, floor int64, demands []int64) []int64 {
	n := len(demands)
	if n == 0 {
		return nil
	}
	rest := max(limit, 0)
	floor = min(floor, rest/int64(n))
	needs, byNeed := make([]int64, n), make([]int, n)
	for i, d := range demands {
		needs[i], byNeed[i] = max(d, floor, 0), i
	}
	slices.SortStableFunc(byNeed, func(a, b int) int { return cmp.Compare(needs[a], needs[b]) })
	shares := make([]int64, n)
	for len(byNeed) > 0 && needs[byNeed[0]] <= rest/int64(len(byNeed)) {
		first := byNeed[0]
		shares[first] = needs[first]
		rest, byNeed = rest-needs[first], byNeed[1:]
	}
	slices.Sort(byNeed) // the first in order get what does not divide
	for i, holder := range byNeed {
		shares[holder] = rest / int64(len(byNeed)-i)
		if rest%int64(len(byNeed)-i) > 0 {
			shares[holder]++
		}
		rest -= shares[holder]
	}
	return shares
}
