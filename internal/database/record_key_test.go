package database

import (
	"bytes"
	"sync"
	"testing"
)

// All nodes hash with one key, also those that ask for the first time at the same moment.
func TestRecordKey_IsOneForAllNodes(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		const nodes = 8
		keys := make([][]byte, nodes)
		var all sync.WaitGroup
		for i := range nodes {
			all.Go(func() {
				var err error
				if keys[i], err = d.RecordKey(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		later, err := d.RecordKey(t.Context())
		if err != nil || len(later) != recordKeyBytes || bytes.Equal(later, make([]byte, recordKeyBytes)) {
			t.Fatalf("%d bytes (%v)", len(later), err)
		}
		for i, key := range keys {
			if !bytes.Equal(key, later) {
				t.Errorf("node %d has another key", i)
			}
		}
	})
}
