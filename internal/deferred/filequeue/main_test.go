package filequeue

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/api/decide"
)

// childDir turns the test binary into a process that only puts items, so that a test can kill it.
const childDir = "SLUICE_TEST_QUEUE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		putForever(dir)
	}
	goleak.VerifyTestMain(m)
}

// putForever prints each ticket as soon as it has it. It also removes every third item.
func putForever(dir string) {
	q, err := Open(Options{Dir: dir, Now: time.Now, SyncEvery: time.Hour})
	for i := 0; err == nil; i++ {
		var ticket string
		if ticket, err = q.Put(context.Background(), 1, decide.QueueItem{Body: make([]byte, 700)},
			decide.QueueBounds{Items: 1 << 20, Age: time.Hour}); err != nil {
			break
		}
		fmt.Fprintln(os.Stdout, "put", ticket)
		if i%3 != 0 {
			continue
		}
		var items []decide.QueueItem
		if items, err = q.Lease(context.Background(), 1, decide.QueueWant{Max: 1, Hold: time.Hour}); err != nil {
			break
		}
		for _, it := range items {
			fmt.Fprintln(os.Stdout, "ending", it.Ticket)
			if _, err = q.Finish(context.Background(), 1, []string{it.Ticket}, nil); err == nil {
				fmt.Fprintln(os.Stdout, "ended", it.Ticket)
			}
		}
	}
	fmt.Fprintln(os.Stdout, "failed", err)
	os.Exit(1)
}
