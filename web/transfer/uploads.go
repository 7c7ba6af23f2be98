package transfer

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"io"
	"slices"
	"sync"
	"time"

	"sluice/rules/field"
	"sluice/rules/rulefile"
)

// Bounds of files that are stored until their plan is applied.
const (
	// maxWaitingFiles and maxWaitingBytes bound the stored files, compressed.
	maxWaitingFiles = 16
	maxWaitingBytes = 96 << 20
	// waitingTime is how long a file is stored.
	waitingTime = 30 * time.Minute
)

// uploads stores one file for each account; the oldest are dropped first. It is safe for concurrent use.
type uploads struct {
	mu    sync.Mutex
	files []upload // oldest first
	// busy is held while a file longer than kit.MaxCarried is processed, so that only one at a time takes its memory.
	busy sync.Mutex
}

type upload struct {
	id     string
	user   int64
	packed []byte
	at     time.Time
}

// put stores a file of an account in place of its last one and returns its ID.
func (u *uploads) put(now time.Time, user int64, text string) (string, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, text); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sweep(now, func(f *upload) bool { return f.user == user })
	f := upload{id: rand.Text(), user: user, packed: slices.Clone(packed.Bytes()), at: now}
	u.files = append(u.files, f)
	for u.size() > maxWaitingBytes || len(u.files) > maxWaitingFiles {
		u.files = slices.Delete(u.files, 0, 1)
	}
	return f.id, nil
}

// sweep removes expired files, and those that drop selects.
func (u *uploads) sweep(now time.Time, drop func(*upload) bool) {
	u.files = slices.DeleteFunc(u.files, func(f upload) bool { return now.Sub(f.at) > waitingTime || drop(&f) })
}

func (u *uploads) size() (n int) {
	for i := range u.files {
		n += len(u.files[i].packed)
	}
	return n
}

// get returns a file of an account.
func (u *uploads) get(now time.Time, user int64, id string) (string, error) {
	u.mu.Lock()
	u.sweep(now, func(*upload) bool { return false })
	i := slices.IndexFunc(u.files, func(f upload) bool { return f.user == user && f.id == id })
	var packed []byte
	if i >= 0 {
		packed = u.files[i].packed // nobody writes to it
	}
	u.mu.Unlock()
	if packed == nil {
		return "", &field.ValidationError{Fields: []field.Problem{{Field: "file",
			Message: "is no longer on this node: files over 1 MiB are kept for 30 minutes by the node that showed the plan. " +
				"Choose the file again"}}}
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(z, rulefile.MaxFile+1))
	return string(text), err
}

// drop removes the files of an account.
func (u *uploads) drop(now time.Time, user int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sweep(now, func(f *upload) bool { return f.user == user })
}
