package sense

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

const (
	// usageShards is the number of locks, maxKeys how many keys are known at once.
	usageShards = 16
	maxKeys     = 10_000
	// offShare is how far, in percent of a level, the use must fall until the level counts as left.
	offShare = 90
	// leastLife and mostLife bound how long a key is known after its last request, which is the window otherwise: by then
	// it has used nothing.
	leastLife, mostLife = 10 * time.Second, 24 * time.Hour
	// leastAgain and mostAgain bound how long a level is not reported again while it lasts. One whose use changed is
	// reported again after moved, at most mostMoved of them a second.
	leastAgain, mostAgain = 5 * time.Minute, 15 * time.Minute
	moved, mostMoved      = 10 * time.Second, 10
)

// usage knows the keys that are at a level of Rule.NotifyPercent.
type usage struct {
	seed   maphash.Seed
	shards [usageShards]usageShard
	// keys is the number of keys in all shards. While it is 0, a request of a key below its levels takes no lock.
	keys atomic.Int64
}

type usageShard struct {
	mu   sync.Mutex
	keys map[limiter.Key]*keyUse
}

// keyUse is a key that is at one level at least.
type keyUse struct {
	rule, shown string
	id          int64
	last        time.Time
	life        time.Duration
	levels      [rules.MaxNotify]levelUse
	used, limit int64
}

// levelUse is a level that is reached, 0 for none.
type levelUse struct {
	percent  int64
	reported time.Time
	used     int64 // when it was reported
}

func newUsage() *usage {
	u := &usage{seed: maphash.MakeSeed()}
	for i := range u.shards {
		u.shards[i].keys = map[limiter.Key]*keyUse{}
	}
	return u
}

// reached reports whether a use is at a level, left whether it is clearly below. Both are at most limiter.MaxExact, so
// that nothing overflows.
func left(used, limit, percent int64) bool { return used*1000 < percent*(offShare/10)*limit }

// useOf is the use of a limit after a decision, false if nobody knows it. It may exceed the limit.
func useOf(la *decide.LimitAnswer) (used, limit int64, known bool) {
	limit = la.Decision.Limit
	if !la.Known || la.Shadow || decide.ByFailMode(la.Degraded) || limit <= 0 {
		return 0, 0, false
	}
	return la.Decision.Used, limit, true
}

// observe notes the use of a key. It is called only for limits with levels.
func (s *Sensor) observe(la *decide.LimitAnswer) {
	used, limit, known := useOf(la)
	u := s.usage
	if !known || u.keys.Load() == 0 && !rules.Reached(used, limit, la.Notify[0]) {
		return
	}
	shard := &u.shards[maphash.String(u.seed, string(la.Key))%usageShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	k := shard.keys[la.Key]
	now := s.opt.Now()
	if k == nil {
		if !rules.Reached(used, limit, la.Notify[0]) {
			return
		}
		if u.keys.Add(1) > maxKeys {
			u.keys.Add(-1)
			s.counts.drop(alerts.KindKeyUsage, 1)
			return
		}
		k = &keyUse{rule: la.Rule, shown: alerts.ShownKey(la.Key)}
		k.id, _ = match.RuleID(la.Key)
		shard.keys[limiter.Key(strings.Clone(string(la.Key)))] = k
	}
	k.last, k.used, k.limit = now, used, limit
	k.life = min(max(time.Duration(la.Limit.Window)*time.Millisecond, leastLife), mostLife)
	for i := range k.levels {
		if l := &k.levels[i]; l.percent != 0 && left(used, limit, l.percent) {
			s.add(k.sighting(l.percent, alerts.Off), now)
			*l = levelUse{}
		}
	}
	for _, percent := range la.Notify {
		if rules.Reached(used, limit, percent) {
			k.enter(s, percent, now)
		}
	}
	if k.levels == ([rules.MaxNotify]levelUse{}) {
		delete(shard.keys, la.Key)
		u.keys.Add(-1)
	}
}

// enter reports that a level is reached, unless that is known.
func (k *keyUse) enter(s *Sensor, percent int64, now time.Time) {
	free := -1
	for i := range k.levels {
		switch l := k.levels[i].percent; {
		case l == percent:
			return
		case l == 0 && free < 0:
			free = i
		}
	}
	if free < 0 { // the levels of the rule were edited; the old levels end after their life
		return
	}
	k.levels[free] = levelUse{percent, now, k.used}
	s.add(k.sighting(percent, alerts.On), now)
}

// sighting is what is reported of a level.
func (k *keyUse) sighting(percent int64, state string) evaluate.Sighting {
	out := evaluate.Sighting{State: state, Details: evaluate.Details{RuleID: k.id}, LifeMS: (2*k.again() + slack).
		Milliseconds(), Subject: alerts.Subject{Kind: alerts.KindKeyUsage, Rule: k.rule, Key: k.shown,
		Level: strconv.FormatInt(percent, 10)}}
	if state == alerts.On {
		out.Numbers = map[string]int64{"used": k.used, "limit": k.limit, "percent": percent}
	}
	return out
}

// again is how long a level is not reported again.
func (k *keyUse) again() time.Duration { return min(max(k.life, leastAgain), mostAgain) }

// sweepUsage reports which keys made no request for long, and again which are still at a level: from time to time, and
// when their use changed.
func (s *Sensor) sweepUsage(now time.Time) {
	again := 0
	for i := range s.usage.shards {
		shard := &s.usage.shards[i]
		shard.mu.Lock()
		for key, k := range shard.keys {
			over := now.Sub(k.last) >= k.life
			for j := range k.levels {
				l := &k.levels[j]
				switch {
				case l.percent == 0:
				case over:
					s.add(k.sighting(l.percent, alerts.Off), now)
				case now.Sub(l.reported) >= k.again():
					s.add(k.sighting(l.percent, alerts.On), now)
					l.reported, l.used = now, k.used
				case k.used != l.used && again < mostMoved && now.Sub(l.reported) >= moved:
					again++
					s.add(k.sighting(l.percent, alerts.On), now)
					l.reported, l.used = now, k.used
				}
			}
			if over {
				delete(shard.keys, key)
				s.usage.keys.Add(-1)
			}
		}
		shard.mu.Unlock()
	}
}

// leaveUsage reports, before the node stops, how long the keys stay at their levels if nobody else sees them.
func (s *Sensor) leaveUsage(now time.Time) {
	for i := range s.usage.shards {
		shard := &s.usage.shards[i]
		shard.mu.Lock()
		for _, k := range shard.keys {
			for _, l := range k.levels {
				if l.percent != 0 {
					last := k.sighting(l.percent, alerts.On)
					last.LifeMS = max(1, (k.life - now.Sub(k.last)).Milliseconds())
					s.add(last, now)
				}
			}
		}
		shard.mu.Unlock()
	}
}
