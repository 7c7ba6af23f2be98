package memstore

import (
	"math/rand/v2"
	"time"
)

const (
	// sweepEvery is the pause between two shards. A round of all of them takes
	// 13 seconds.
	sweepEvery = 50 * time.Millisecond
	// sweepStep is the number of elements that are checked under one lock.
	sweepStep = 512
)

// sweepLoop drops expired elements, one shard at a time, until Close.
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

// sweepShard checks every element of one shard of buckets and of records, in steps
// between which requests can take the lock.
func (s *Store) sweepShard(i int) {
	for done := false; !done; {
		var dropped int
		dropped, done = s.sweepBuckets(i)
		s.keys.Add(int64(-dropped))
	}
	for done := false; !done; {
		done = s.sweepSums(i)
	}
	for done := false; !done; {
		done = s.sweepRecords(i)
	}
}

func (s *Store) sweepBuckets(i int) (dropped int, done bool) {
	sh := &s.shards[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.buckets.sweep(s.mono(), sweepStep, nil)
}

func (s *Store) sweepSums(i int) (done bool) {
	sh := &s.shards[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, done = sh.sums.sweep(s.mono(), sweepStep, nil)
	return done
}

func (s *Store) sweepRecords(i int) (done bool) {
	sh := &s.records[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dropped, bytes, done := sh.book.sweep(s.seed, s.mono(), sweepStep)
	if dropped > 0 {
		s.recordCount.Add(int64(-dropped))
		s.recordBytes.Add(-bytes)
		sh.publishOldest()
	}
	return done
}

// makeRoom brings the store back under its limits. It is called without locks, after
// each request that may have added an element.
func (s *Store) makeRoom() {
	for s.keys.Load() > s.maxKeys {
		s.evictBucket()
	}
	for s.recordBytes.Load() > s.maxRecordBytes {
		s.dropOldestRecord()
	}
}

// evictShards is the number of random shards that compete for an eviction.
const evictShards = 3

func (s *Store) evictBucket() {
	i := soonestShard(func(i int) (int64, bool) {
		sh := &s.shards[i]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		_, deadline, ok := sh.buckets.soonest()
		return deadline, ok
	})
	sh := &s.shards[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if gone, ok := sh.buckets.evict(); ok {
		sh.sums.remove(gone.hash, gone.key)
		s.keys.Add(-1)
		s.evicted.Add(1)
	}
}

// soonestShard returns, of a few random shards, the shard whose element expires first. look returns the soonest
// deadline of a shard, or false if it is empty; empty shards are skipped.
func soonestShard(look func(i int) (int64, bool)) int {
	best, soonest, found := 0, int64(0), 0
	first := rand.IntN(shardCount)
	// An odd stride visits every shard once before the first again.
	stride := 2*rand.IntN(shardCount/2) + 1
	for n := 0; n < shardCount && found < evictShards; n++ {
		i := (first + n*stride) % shardCount
		deadline, ok := look(i)
		if !ok {
			continue
		}
		if found == 0 || deadline < soonest {
			best, soonest = i, deadline
		}
		found++
	}
	return best
}
