package limiter

import (
	"context"
	"time"
)

// Exported is the sums of one bucket, as they were when they were exported.
type Exported struct {
	Key  Key
	Sums Sums
	// Lease names the export, for Confirm.
	Lease int64
	// Heard is what was applied to the bucket from other regions by then. Without windows.
	Heard Heard
	// Guard is for Confirm: that of the region from now on. Without a Share there is none.
	Guard Guard
}

// Exporter is a Store that keeps the sums of asks that span regions, and hands them out. It is safe for
// concurrent use.
type Exporter interface {
	Store
	// Changed returns how many buckets have changed since they were last exported, or MaxExact where no caller could
	// export all of them alone.
	Changed(ctx context.Context) (int, error)
	// Export returns the sums of up to most buckets that have changed since they were last exported. It may leave out
	// those that are not Worth telling. Until Confirm they are leased: after lease without it they are exported again,
	// by whoever asks next. So what a caller had and lost, because it died or because no region could be reached, is not
	// lost.
	Export(ctx context.Context, most int, lease time.Duration) ([]Exported, error)
	// Confirm says that every region has what was exported, as far as it ever needs to, and sets the guard that
	// comes with it, if it has one. A lease that was renewed meanwhile stays. Without a lease it sets the guard alone.
	Confirm(ctx context.Context, sums []Exported) error
}
