package traces

import (
	"context"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"sluice/internal/trouble"
)

// export sends spans to the collector in batches and counts the exported and dropped ones. It is the SpanProcessor in
// front of the SDK's batches and the SpanExporter behind them. Spans beyond the room of the queue are dropped, so that
// no request waits.
type export struct {
	batches sdk.SpanProcessor
	to      sdk.SpanExporter
	room    int64 // the most queued spans
	log     *pacedLog

	waiting, exported, dropped atomic.Int64
	closed                     atomic.Bool
	// stopped ends running exports when their time is over.
	stopped context.Context //nolint:containedctx // of all exports
	stop    context.CancelFunc
}

func newExport(to sdk.SpanExporter, room int64, log *pacedLog) *export {
	e := &export{to: to, room: room, log: log}
	e.stopped, e.stop = context.WithCancel(context.Background())
	// The queue of the SDK is never full, since it has room for all that may wait.
	e.batches = sdk.NewBatchSpanProcessor(sender{e}, sdk.WithMaxQueueSize(int(room)))
	return e
}

// OnStart implements sdk.SpanProcessor.
func (e *export) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (e *export) OnEnd(s sdk.ReadOnlySpan) {
	switch {
	case !s.SpanContext().IsSampled():
	case e.closed.Load():
		e.dropped.Add(1)
	case e.waiting.Add(1) > e.room:
		e.waiting.Add(-1)
		e.dropped.Add(1)
		e.log.warn("spans are dropped: they come faster than the collector takes them", "dropped", e.dropped.Load())
	default:
		e.batches.OnEnd(s)
	}
}

// ForceFlush implements sdk.SpanProcessor.
func (e *export) ForceFlush(ctx context.Context) error { return e.batches.ForceFlush(ctx) }

// Shutdown implements sdk.SpanProcessor.
func (e *export) Shutdown(ctx context.Context) error { return e.batches.Shutdown(ctx) }

// close exports the queued spans until ctx ends. shutdown is the Shutdown of the SDK.
func (e *export) close(ctx context.Context, shutdown func(context.Context) error) error {
	e.closed.Store(true)
	unhook := context.AfterFunc(ctx, e.stop)
	defer unhook()
	defer e.stop()
	err := shutdown(context.WithoutCancel(ctx)) // it ends when its exports do
	if lost := e.waiting.Swap(0); lost > 0 {    // they ended while it closed
		e.dropped.Add(lost)
	}
	e.log.log.Info("traces are closed", "exported", e.exported.Load(), "dropped", e.dropped.Load())
	return err
}

var exportFailing = trouble.Declare(trouble.Condition{Code: "traces_not_exported",
	Advice: "see to the collector; requests are not affected",
	Starts: "exporting spans failed; they are dropped, and requests go on", Ends: "spans are exported again"})

// sender is the SpanExporter of an export. It reports no errors, so that each is counted and logged once.
type sender struct{ *export }

// ExportSpans implements sdk.SpanExporter.
func (s sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopped, cancel)()
	err := s.stopped.Err()
	if err == nil {
		err = s.to.ExportSpans(ctx, spans)
	}
	n := int64(len(spans))
	s.waiting.Add(-n)
	if err != nil {
		s.dropped.Add(n)
	} else {
		s.exported.Add(n)
	}
	if s.stopped.Err() == nil {
		s.log.trouble.Note(exportFailing, "", err, "dropped", s.dropped.Load())
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (s sender) Shutdown(ctx context.Context) error { return s.to.Shutdown(ctx) }
