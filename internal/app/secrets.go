package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/api/decide"
	"sluice/internal/atomicfile"
	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/secretfile"
	"sluice/limiter/redisstore"
)

// secretSize is the length of the reservation secret, in bytes.
const secretSize = 32

// openSecrets opens the secrets that authenticate reservations: in Redis, shared by all
// nodes that share its counters, or in a file if the counters are in memory. url is the
// file with the URL of Redis, or nil.
func openSecrets(cfg *config.Serve, host *Host, url *secretfile.File, stops *stops) (decide.Secrets, error) {
	if !cfg.Redis() {
		return fileSecret(secretFile(cfg))
	}
	client, err := redisClient(cfg, url, redisstore.ClientOptions{PoolSize: 1})
	if err != nil {
		return nil, err // names REDIS_URL, never its password
	}
	stops.add("Redis client of the reservation secret", func(context.Context) error { return client.Close() })
	s, err := fleet.NewSecret(fleet.SecretOptions{Client: client, Prefix: cfg.KeyPrefix, Now: host.Now})
	if err != nil {
		return nil, err
	}
	// Read now, so that the first reserve need not wait. Redis may be unavailable.
	stops.add("first read of the reservation secret", task(func(ctx context.Context) { _, _ = s.Secrets(ctx, false) }))
	return s, nil
}

// secretFile is the file of the secret of a node with counters in memory.
func secretFile(cfg *config.Serve) string { return filepath.Join(cfg.DataDir, "reservations.key") }

// fixedSecret is a secret that never changes.
type fixedSecret [secretSize]byte

// Secrets implements decide.Secrets.
func (s *fixedSecret) Secrets(context.Context, bool) ([][]byte, error) { return [][]byte{s[:]}, nil }

// fileSecret reads the secret at path, or creates one there that only its owner can
// read. No other process uses the data directory.
func fileSecret(path string) (*fixedSecret, error) {
	text, err := os.ReadFile(path)
	s := &fixedSecret{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, _ = rand.Read(s[:]) // never returns an error
		return s, atomicfile.Write(path, func(f *os.File) error {
			_, err := f.Write(hex.AppendEncode(nil, s[:]))
			return err
		})
	case err != nil:
		return nil, err
	}
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != secretSize {
		return nil, fmt.Errorf("%s does not contain a valid secret; delete the file to create a new secret (open "+
			"reservations can then no longer be settled)", path)
	}
	copy(s[:], b)
	return s, nil
}
