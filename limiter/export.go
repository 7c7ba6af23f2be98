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
	// Guard is for Confirm: it becomes the guard of the region. A Guard without a Share means no guard.
	Guard Guard
}

// Exporter is a Store that keeps the sums of asks that span regions, and hands them out. It is safe for
// concurrent use.
type Exporter interface {
	Store
	// Changed returns how many buckets have changed since they were last exported, or MaxExact if there are more than
	// one caller can export. It fails with ErrLost in the same cases as Export.
	Changed(ctx context.Context) (int, error)
	// Export returns the sums of up to most buckets that have changed since they were last exported. It may leave out
	// sums that are not Worth sending. Until Confirm they are leased: when the lease has ended without a Confirm, the
	// next call exports them again. So sums survive a caller that died or that could not reach any region. With
	// Regions.Restores the error is ErrLost if the store, or a slot of a cluster, has lost its data: its sums are not
	// exported before EndRestore.
	Export(ctx context.Context, most int, lease time.Duration) ([]Exported, error)
	// Confirm says that every region that needs the exported sums has received them, and sets the guard in each of
	// them, if there is one. A lease that has been renewed since stays. Without a lease, Confirm only sets the guard.
	Confirm(ctx context.Context, sums []Exported) error

	// BeginRestore begins a restore under a new name. Several restores may run at once. Then the store accepts
	// OpRestore. It returns false if no data are lost.
	BeginRestore(ctx context.Context, name string) (bool, error)
	// EndRestore lets sums be exported again, and ends all restores. It returns false if there is no restore of that
	// name, because another restore has ended or the data were lost again. The buckets in but are not restored yet: the
	// slots of a cluster that hold them stay closed, and so does a store without slots if but is not empty.
	EndRestore(ctx context.Context, name string, but ...Key) (bool, error)
	// Recall returns the sums of some buckets with all windows. Their only Received are the sums that were applied from
	// the region. While the store has lost its data, its own sums are left out. The cursor is "" for the first call,
	// and then next of the previous call; next is "" at the end. A call reads a bounded part of the store. As with SCAN
	// of Redis, a bucket may be returned twice.
	Recall(ctx context.Context, region, cursor string) (known []Exported, next string, err error)
}

// ErrLost says that a store has lost its data.
var ErrLost = errors.New("the counter store has lost its data")
