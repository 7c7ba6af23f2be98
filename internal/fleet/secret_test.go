package fleet_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

func newSecret(t *testing.T, url string, clock *clock) *fleet.Secret {
	t.Helper()
	s, err := fleet.NewSecret(fleet.SecretOptions{Client: client(t, url), Now: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func secrets(t *testing.T, s *fleet.Secret, again bool) [][]byte {
	t.Helper()
	list, err := s.Secrets(t.Context(), again)
	if err != nil || len(list) == 0 || len(list[0]) != 32 {
		t.Fatalf("%d secrets, %v", len(list), err)
	}
	return list
}

func TestSecret_IsOneForAllNodesThatStartAtOnce(t *testing.T) {
	srv, clock := testenv.Redis(t), newClock()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		s := newSecret(t, srv.URL(), clock)
		for range 4 {
			wg.Go(func() {
				list, err := s.Secrets(context.Background(), false)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[string(list[0])] = true
			})
		}
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("%d secrets, want 1", len(seen))
	}
}

func TestSecret_ThatWasLostIsReplacedAndTheOldOneStillKnown(t *testing.T) {
	srv, clock := testenv.Redis(t), newClock()
	a, b := newSecret(t, srv.URL(), clock), newSecret(t, srv.URL(), clock)
	old := secrets(t, a, false)[0]
	c := client(t, srv.URL())
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	fresh := secrets(t, b, false)[0]
	if bytes.Equal(old, fresh) {
		t.Fatal("the secret outlived its store")
	}
	if got := secrets(t, a, true); len(got) != 1 {
		t.Error("asked twice within a second")
	}
	clock.add(time.Second)
	if got := secrets(t, a, true); len(got) != 2 || !bytes.Equal(got[0], fresh) || !bytes.Equal(got[1], old) {
		t.Errorf("%d secrets after a doubt, want the new and the old", len(got))
	}
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	clock.add(10 * time.Second)
	if got := secrets(t, a, false); len(got) != 2 || bytes.Equal(got[0], fresh) {
		t.Error("a lost secret went unnoticed for ten seconds")
	}
}

func TestSecret_OnceKnownNeedsNoServer(t *testing.T) {
	srv, clock := testenv.Redis(t), newClock()
	s, late := newSecret(t, srv.URL(), clock), newSecret(t, srv.URL(), clock)
	first := secrets(t, s, false)[0]
	srv.Kill()
	clock.add(time.Hour)
	if got := secrets(t, s, true); !bytes.Equal(got[0], first) {
		t.Error("it changed")
	}
	for range 2 {
		if _, err := late.Secrets(t.Context(), false); err == nil {
			t.Error("a secret out of nowhere")
		}
	}
}
