package transfer

import (
	"fmt"
	"testing"
	"time"
)

// TestUploads_DropTheOldest: as many files wait as may, and the next one takes the place of the oldest.
func TestUploads_DropTheOldest(t *testing.T) {
	t.Parallel()
	var u uploads
	now := time.UnixMilli(0)
	var ids []string
	for user := range int64(maxWaitingFiles) {
		id, err := u.put(now, user, fmt.Sprint("file of ", user))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	waits := func(user int64) bool {
		text, err := u.get(now, user, ids[user])
		return err == nil && text == fmt.Sprint("file of ", user)
	}
	for user := range int64(maxWaitingFiles) {
		if !waits(user) {
			t.Errorf("file %d of %d is not there", user+1, maxWaitingFiles)
		}
	}
	id, err := u.put(now, maxWaitingFiles, fmt.Sprint("file of ", maxWaitingFiles))
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, id)
	for user := range int64(len(ids)) {
		if waits(user) != (user > 0) {
			t.Errorf("after one file more than %d, file %d is there: %v", maxWaitingFiles, user+1, waits(user))
		}
	}
}
