package memstore

import (
	"math/rand/v2"
	"time"
)

const (
	// sweepEvery is the pause between two shards. A round of all of them takes
	// 13 seconds.
	sweepEvery = 50 * time.Millisecond
	// sweepStep is how many elements are looked at while a lock is held.
	sweepStep = 512
)

// sweepLoop drops what expired, one shard at a time, until Close.
func (s *Store) sweepLoop() {
	defer close(s.stopped)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % shardCount {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.sweepShard(i)
		}
	}
}

// sweepShard looks at every element of one shard of buckets and of records, in
// steps between which requests get their turn.
func (s *Store) sweepShard(i int) {
	for done := false; !done; {
		var dropped int
		dropped, done = s.sweepBuckets(i)
		s.keys.Add(int64(-dropped))
	}
	for done := false; !done; {
		var dropped int
		dropped, done = s.sweepRecords(i)
		s.recordCount.Add(int64(-dropped))
	}
}

func (s *Store) sweepBuckets(i int) (dropped int, done bool) {
	sh := &s.shards[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.buckets.sweep(s.instant().mono, sweepStep)
}

func (s *Store) sweepRecords(i int) (dropped int, done bool) {
	sh := &s.records[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.records.sweep(s.instant().mono, sweepStep)
}

// makeRoom brings the store back under its caps. It is called without locks
// held, after whatever may have added an element.
func (s *Store) makeRoom() {
	for s.keys.Load() > s.maxKeys {
		s.evictBucket()
	}
	for s.recordCount.Load() > s.maxRecords {
		s.evictRecord()
	}
}

// evictBucket evicts from a random shard, or the next that has anything.
func (s *Store) evictBucket() {
	first := rand.IntN(shardCount)
	for i := range shardCount {
		sh := &s.shards[(first+i)%shardCount]
		sh.mu.Lock()
		evicted := sh.buckets.evict()
		if evicted {
			s.keys.Add(-1)
		}
		sh.mu.Unlock()
		if evicted {
			s.evicted.Add(1)
			return
		}
	}
}

func (s *Store) evictRecord() {
	first := rand.IntN(shardCount)
	for i := range shardCount {
		sh := &s.records[(first+i)%shardCount]
		sh.mu.Lock()
		evicted := sh.records.evict()
		if evicted {
			s.recordCount.Add(-1)
		}
		sh.mu.Unlock()
		if evicted {
			s.evictedRecords.Add(1)
			return
		}
	}
}
