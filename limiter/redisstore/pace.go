package redisstore

import "time"

// pace is how long the script calls of a lane take, as a moving average. It
// keeps a lane that is asked for more than its server can do from sending only
// what has grown too old in its queue: such calls would all miss their deadlines,
// be charged for nothing, and look like a server that fails.
type pace struct{ took time.Duration }

const (
	// paceWeight is how many calls the average is of, about.
	paceWeight = 8
	// rushed: a call is sent only with this many times what calls take left, or
	// with this share of what its caller had at first.
	rushedCalls, rushedShare = 4, 3
)

// note takes the length of a call.
func (p *pace) note(took time.Duration) {
	if p.took == 0 {
		p.took = took
		return
	}
	p.took += (took - p.took) / paceWeight
}

// hopeless reports whether g has waited for so long that its answer would
// hardly come in time.
func (p *pace) hopeless(g *group, now time.Time) bool {
	if !g.bounded || g.within <= 0 || g.giving {
		return false
	}
	return g.deadline.Sub(now) < min(rushedCalls*p.took, g.within/rushedShare)
}
