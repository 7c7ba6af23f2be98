package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// SecretOptions configure a Secret. Client and Now are required.
type SecretOptions struct {
	// Client talks to the servers; it may be the client of the counter store.
	Client redis.UniversalClient
	// Prefix is the prefix of the counter store, "sl:" if empty.
	Prefix string
	// Now is the wall clock.
	Now func() time.Time
}

// Secret is a random secret that all nodes with the same counter store share. It is stored with the counters and lost
// with them, because it seals reservations of their units. The first node that reads it creates it. It is safe for
// concurrent use and owns no goroutine.
type Secret struct {
	opt SecretOptions
	key string
	// turn lets one caller at a time read from the server.
	turn chan struct{}

	mu    sync.Mutex
	known [][]byte // the present one, then the previous one
	asked time.Time
}

// The intervals of reads: regularly, in case the counters were lost and another node
// has created a new secret, and after a failure or on request.
const (
	secretEvery = 10 * time.Second
	secretRetry = time.Second
	secretSize  = 32
)

// NewSecret creates a Secret. It does not connect.
func NewSecret(opt SecretOptions) (*Secret, error) {
	if opt.Client == nil || opt.Now == nil {
		return nil, errors.New("secret: Client and Now are required")
	}
	if opt.Prefix == "" {
		opt.Prefix = "sl:"
	}
	// Keys of buckets have braces.
	return &Secret{opt: opt, key: opt.Prefix + "secret", turn: make(chan struct{}, 1)}, nil
}

// Secrets returns the present secret and the previous one. With again it reads them from the server, unless it has done
// so within the last second. Once the secret is known, an unreachable server does not matter.
func (s *Secret) Secrets(ctx context.Context, again bool) ([][]byte, error) {
	known, due := s.look(again)
	if len(known) > 0 && !due {
		return known, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		if len(known) > 0 {
			return known, nil
		}
		return nil, ctx.Err()
	}
	if known, due = s.look(again); due {
		err := s.ask(ctx)
		if known, _ = s.look(false); len(known) == 0 {
			return nil, err
		}
	}
	if len(known) == 0 {
		return nil, errors.New("fetching the shared secret failed less than a second ago")
	}
	return known, nil
}

// look returns what is known and whether to read from the server.
func (s *Secret) look(again bool) (known [][]byte, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := secretEvery
	if again || len(s.known) == 0 {
		wait = secretRetry
	}
	passed := s.opt.Now().Sub(s.asked)
	return s.known, passed >= wait || passed < 0
}

// ask reads the secret, or creates it.
func (s *Secret) ask(ctx context.Context) error {
	s.mu.Lock()
	s.asked = s.opt.Now()
	s.mu.Unlock()
	text, err := s.opt.Client.Get(ctx, s.key).Result()
	if errors.Is(err, redis.Nil) {
		var fresh [secretSize]byte
		_, _ = rand.Read(fresh[:]) // never fails: it ends the process instead
		if err = s.opt.Client.SetNX(ctx, s.key, hex.EncodeToString(fresh[:]), 0).Err(); err == nil {
			text, err = s.opt.Client.Get(ctx, s.key).Result()
		}
	}
	if err != nil {
		return fmt.Errorf("read the shared secret: %w", err)
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != secretSize {
		return fmt.Errorf("the value at %s is not a secret", s.key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) == 0 || string(s.known[0]) != string(b) {
		s.known = append([][]byte{b}, s.known[:min(1, len(s.known))]...)
	}
	return nil
}
