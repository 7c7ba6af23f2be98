package queuetest

import (
	"time"

	"sluice/api/decide"
)

// by makes a Put one with a nonce.
func by(nonce string) func(*decide.QueueItem) { return func(it *decide.QueueItem) { it.Nonce = nonce } }

// withdraw wants an item to stay under a ticket, or to be withdrawn if it is "".
func (s *suite) withdraw(nonce, stays string) {
	s.Helper()
	if got, err := s.q.Withdraw(s.ctx, 1, nonce); err != nil || got != stays {
		s.Errorf("withdrawing %s: %q, %v, want %q", nonce, got, err, stays)
	}
}

func (s *suite) withdraws() {
	s.withdraw("none", "")
	s.put(1, "a", by("a"))
	s.put(1, "b", by("b"))
	s.put(1, "c", by("c"), func(it *decide.QueueItem) { it.ID = "id" })
	s.put(2, "d", by("a"))
	s.withdraw("a", "")
	s.depth(1, 2)
	s.withdraw("a", "")
	s.withdraw("c", "")
	s.depth(1, 1)
	s.depth(2, 1)
	got := s.lease(1, 5, time.Hour)
	s.wantBodies(got, "b")
	s.finish(1, nil, tickets(got)) // it waits again
	s.withdraw("b", "")
	s.depth(1, 0)
	s.wantBodies(s.lease(1, 5, time.Hour), "")
	s.put(1, "again", by("e"), func(it *decide.QueueItem) { it.ID = "id" })
	s.wantBodies(s.lease(1, 5, time.Hour), "again")
}

func (s *suite) keeps() {
	leased := s.put(1, "leased", by("a"))
	s.lease(1, 1, time.Hour)
	s.withdraw("a", leased)
	same := func(it *decide.QueueItem) { it.ID = "id" }
	first := s.put(1, "twice", by("b"), same)
	if again := s.put(1, "twice", by("c"), same); again != first {
		s.Errorf("tickets %q and %q for one id", first, again)
	}
	s.withdraw("b", first)
	s.withdraw("c", first)
	repeated := s.put(1, "repeated", by("d"), same, func(it *decide.QueueItem) { it.ID = "other" })
	if again := s.put(1, "repeated", by("d"), func(it *decide.QueueItem) { it.ID = "other" }); again != repeated {
		s.Errorf("tickets %q and %q for one Put", repeated, again)
	}
	s.withdraw("d", "") // nobody else has its ticket
	s.depth(1, 2)
	s.wantBodies(s.lease(1, 5, time.Hour), "twice")
}
