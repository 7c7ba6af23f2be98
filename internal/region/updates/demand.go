package updates

import (
	"slices"
	"time"

	"sluice/limiter"
)

// floorParts is the part of an equal share that a region without demand keeps, so that it can begin at once.
const floorParts = 4

// Demands measures what each region asks for, and computes guards by it. It remembers up to a number of buckets and
// then forgets all, after which demand counts from the beginning of the sums. It is not safe for concurrent use.
type Demands struct {
	regions  []string // in order, so that every region finds the same one to lead
	self     int
	most     int
	interval time.Duration
	last     map[limiter.Key]demands
}

// demands are the demands on all regions at an instant.
type demands struct {
	at time.Time
	of []demand
}

// demand is what a region was asked for and took since its sums began.
type demand struct{ born, asked, taken int64 }

func demandOf(m *limiter.Sums) demand { return demand{m.Born, m.Taken + m.Denied, m.Taken} }

// NewDemands returns an empty Demands of one region among its peers, which send updates every interval.
func NewDemands(most int, interval time.Duration, self string, peers ...string) *Demands {
	regions := append([]string{self}, peers...)
	slices.Sort(regions)
	return &Demands{regions: regions, self: slices.Index(regions, self), most: most, interval: interval,
		last: map[limiter.Key]demands{}}
}

// Guard returns the guard of this region for the time after the others have these sums. It divides the units that are
// left: three quarters by the demand on each region since the last call for the bucket, and a quarter equally.
//
// If there was demand and nothing was taken, the parts are too small for the requests: then the region with the most
// demand may spend all units. If several have the same demand, the first by name leads. If the demand of all regions is
// below one unit for each region in an interval, every region leads: two rarely want the last unit at once. At the
// first call, a region that has sent no update yet counts with the demand of this one: a storm begins everywhere.
func (d *Demands) Guard(s *limiter.Exported, at time.Time) limiter.Guard {
	now := make([]demand, len(d.regions))
	for i, name := range d.regions {
		j := slices.IndexFunc(s.Received, func(h limiter.RegionSums) bool { return h.Region == name })
		switch {
		case i == d.self:
			now[i] = demandOf(&s.Sums)
		case j >= 0:
			now[i] = demandOf(&s.Received[j].Sums)
		}
	}
	last, ok := d.last[s.Key]
	if !ok && len(d.last) >= d.most {
		clear(d.last)
	}
	d.last[s.Key] = demands{at, now}
	asked, sum, taken, lead := make([]int64, len(now)), int64(0), int64(0), 0
	for i, n := range now {
		switch {
		case !ok && n.born == 0:
			n.asked = now[d.self].asked
		case ok && last.of[i].born == n.born:
			n.asked, n.taken = n.asked-last.of[i].asked, n.taken-last.of[i].taken
		}
		asked[i] = max(0, n.asked)
		sum += asked[i]
		taken += n.taken
		if asked[i] > asked[lead] {
			lead = i
		}
	}
	g := limiter.Guard{Share: shareOf(asked, taken > 0, lead, d.self), Lead: lead == d.self}
	intervals := max(1, float64(at.Sub(last.at))/float64(d.interval))
	g.Lead = g.Lead || ok && float64(sum) < intervals*float64(len(now))
	return g
}

// shareOf is the share of region self by the demand on each region. took says whether any unit was taken.
func shareOf(asked []int64, took bool, lead, self int) int64 {
	var sum float64
	for _, a := range asked {
		sum += float64(a)
	}
	n := float64(len(asked))
	switch {
	case sum == 0:
		return int64(float64(limiter.FullShare) / n)
	case !took && lead == self:
		return limiter.FullShare
	case !took:
		return 1
	}
	byDemand := float64(asked[self]) / sum
	return int64(float64(limiter.FullShare) * ((1-1.0/floorParts)*byDemand + 1/(floorParts*n)))
}
