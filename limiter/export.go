package limiter

import (
	"context"
	"errors"
	"time"
)

// Exported is the sums of one bucket, as they were when they were exported.
type Exported struct {
	Key  Key
	Sums Sums
	// Lease names the export, for Confirm.
	Lease int64
	// Received is what was applied to the bucket from other regions by then. Without windows.
	Received Received
	// Guard is for Confirm: that of the region from now on. Without a Share there is none.
	Guard Guard
}

// Exporter is a Store that keeps the sums of asks that span regions, and hands them out. It is safe for
// concurrent use.
type Exporter interface {
	Store
	// Changed returns how many buckets have changed since they were last exported, or MaxExact where no caller could
	// export all of them alone. The error is ErrLost where that of Export is.
	Changed(ctx context.Context) (int, error)
	// Export returns the sums of up to most buckets that have changed since they were last exported. It may leave out
	// those that are not Worth telling. Until Confirm they are leased: after lease without it they are exported again,
	// by whoever asks next. So what a caller had and lost, because it died or because no region could be reached, is not
	// lost. With Regions.Restores the error is ErrLost if the store, or a slot of a cluster, has lost its data: its sums
	// are not exported before EndRestore.
	Export(ctx context.Context, most int, lease time.Duration) ([]Exported, error)
	// Confirm says that every region has what was exported, as far as it ever needs to, and sets the guard that
	// comes with it, if it has one. A lease that was renewed meanwhile stays. Without a lease it sets the guard alone.
	Confirm(ctx context.Context, sums []Exported) error

	// BeginRestore begins a restore under a new name, beside those that have not ended. Then the store accepts
	// OpRestore. It returns false if no data are lost.
	BeginRestore(ctx context.Context, name string) (bool, error)
	// EndRestore lets sums be exported again, and ends all restores. It returns false if there is no restore of that
	// name, because another one has ended, or the data were lost again. The slots of a cluster that buckets but are in
	// stay as they are, and so does a store without slots if there is any: they are still to be restored.
	EndRestore(ctx context.Context, name string, but ...Key) (bool, error)
	// Recall returns the sums of some buckets, with those that were applied from a region as their only Received, and with
	// all windows. While the store has lost its data, its own sums are left out. The cursor is "" at first, and then next
	// of the call before, which is "" at the end. A call reads a bounded part of the store. As with SCAN of Redis, a
	// bucket may be returned twice.
	Recall(ctx context.Context, region, cursor string) (known []Exported, next string, err error)
}

// ErrLost means that a store has lost its data.
var ErrLost = errors.New("the counter store has lost its data")
