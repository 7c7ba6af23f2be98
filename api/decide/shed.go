package decide

import (
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// shedding is the condition of a shedding pool for a call: its use plus the weight of the call is at most the part of
// the capacity that the priorities of its rules may fill. The store checks it in the request that takes the limits,
// unless a load report already decides.
type shedding struct {
	// percent is the smallest part that the count is compared with, while needsRoom.
	percent int64
	// reported: a fresh report says that room units are free for a priority, and is fresh for left.
	reported bool
	room     int64
	priority string
	left     time.Duration
}

// shed makes the call of a shedding pool depend on the room for a priority. A fresh report replaces
// the count, except for critical requests.
func (p *plannedPool) shed(priority string, loads *Loads) {
	percent := p.pool.SharePercent(priority)
	if priority != rules.PriorityCritical {
		if load, left, fresh := loads.Load(p.pool.Pool.Name); fresh {
			if room := p.pool.Room(priority, load); !p.reported || room < p.room {
				p.reported, p.room, p.priority, p.left = true, room, priority, left
			}
			return
		}
	}
	if share := p.pool.Share(priority); !p.needsRoom || share.Count < p.share.Count {
		p.needsRoom, p.share, p.percent = true, share, percent
	}
}

// full reports whether a load report sheds the call.
func (p *plannedPool) full() bool { return p.reported && p.weight > p.room }

// anyFull reports whether a load report sheds a call that counts into the pools. Such a call only looks, and is always
// denied: the answer of the store supplies the time to wait.
func anyFull(pools []plannedPool) bool {
	for i := range pools {
		if pools[i].full() {
			return true
		}
	}
	return false
}

// fullAsk looks at the count, which decides when the report has expired.
func (p *plannedPool) fullAsk() limiter.Ask {
	return limiter.Ask{Key: p.pool.Key, Limit: p.pool.Share(p.priority), Weight: p.weight, Look: true}
}

// sheds reports whether a denial of the call is one of a limit: the pool sheds its priority. said is the decision on
// the pool's ask.
func (p *plannedPool) sheds(l *plannedLimit, said *limiter.Decision) bool {
	if l.candidate || !p.pool.Pool.Shed {
		return false
	}
	priority := l.rule.Priority
	switch {
	case !p.full():
		return !said.Allowed && p.needsRoom && p.pool.SharePercent(priority) <= p.percent
	case priority == rules.PriorityCritical: // the count decides for it; the ask was about the part of another priority
		return p.weight > p.pool.Share(priority).Count-said.Used
	}
	return p.pool.SharePercent(priority) == p.pool.SharePercent(p.priority)
}

// addShed adds the decision of a limit's pool, which is among the last asks of the call, to the decision of the limit.
// pools are the pools of the call; the first has the index first in work.pools.
func (p *plannedLimit) addShed(la *LimitAnswer, pools []plannedPool, first int, decisions []limiter.Decision) {
	if p.pool == 0 || p.lifts {
		return
	}
	at := int(p.pool) - 1 - first
	pool, said := &pools[at], &decisions[len(decisions)-len(pools)+at]
	if !pool.sheds(p, said) {
		return
	}
	wait := said.RetryAfter
	if pool.full() && p.rule.Priority != rules.PriorityCritical {
		wait = later(wait, int64((pool.left+time.Millisecond-1)/time.Millisecond))
	}
	d := &la.Decision
	if d.Allowed {
		la.Shed, la.Priority = pool.pool.Pool.Name, p.rule.Priority
	}
	d.Allowed, d.Delay, d.RetryAfter = false, 0, later(d.RetryAfter, wait)
}

// onlyShed reports whether only pools, and no enforced limit, deny a request.
func (a *Answer) onlyShed() bool {
	shed := false
	for i := range a.Limits {
		la := &a.Limits[i]
		if !la.Decision.Allowed && la.Shed == "" {
			return false
		}
		shed = shed || la.Shed != ""
	}
	return shed
}
