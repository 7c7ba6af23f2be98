package redisstore

import (
	"testing"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// Undos have room in a queue that is full of takes: they come in large batches, and would wait for as long as the
// overload lasts, which may be longer than what they undo is known.
func TestDispatcher_HasRoomForUndosWhenItsQueueIsFull(t *testing.T) {
	d := newDispatcher(100, 200)
	for range 200 {
		b := newBatch(1)
		b.add()
		if err := d.submit(b); err != nil {
			t.Fatal(err)
		}
	}
	undos := newBatch(100)
	undos.isUndo = true
	for range 100 {
		undos.add()
	}
	if err := d.submit(undos); err != nil {
		t.Error(err)
	}
}

// A confirm that comes after its own undo holds nothing: nobody would let go of it.
func TestUndo_AConfirmThatComesLaterIsRefused(t *testing.T) {
	s := newParts(t)
	s.attempt = 1
	s.do(limiter.OpTake, "a", "w", "one")
	s.attempt = 2
	s.do(script.OpUndo, "a", "w", "two")
	o := s.do(script.OpCommit, "a", "w", "two")
	t.Logf("%+v, %v", o.Result.Allowed, o.Err)
	s.attempt = 1
	s.do(script.OpUndo, "a", "w", "one")
	s.holds(0)
}
