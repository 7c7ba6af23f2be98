package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// writeAfter is how long after its end a minute is written first, when every node has posted its last second.
	// writeWithin is the time over which its rows are spread from then on.
	writeAfter  = 4 * time.Second
	writeWithin = 45 * time.Second
	// writeRetry is the pause after a failure.
	writeRetry = 5 * time.Second
	// writeTimeout bounds a call of the store, stopTimeout all writing at a stop.
	writeTimeout = 20 * time.Second
	stopTimeout  = 5 * time.Second
	// tidyEvery is about how often a node adds up and deletes old rows, tidyTime the longest duration of one such run.
	tidyEvery = 10 * time.Minute
	tidyTime  = time.Minute
	// foldRows and cleanRows are the largest numbers of rows of a transaction.
	foldRows, cleanRows = 2000, 5000
)

// unwritten: the rules database lacks minutes of this node, which wait in memory for up to an hour.
var unwritten = trouble.Declare(trouble.Condition{Code: "figures_unwritten",
	Advice: "see whether the rules database answers; decisions are not affected",
	Starts: "figures cannot be written to the rules database; they wait in memory for up to an hour",
	Ends:   "figures are written to the rules database again"})

// WriterOptions configure a Writer. Peaks, Unsent, Trouble and Log are optional.
type WriterOptions struct {
	Own   *Own
	Store Store
	// Peaks returns, by rule, the largest number of decisions of all nodes in a second of a minute. It returns nil on
	// nodes that do not compute them.
	Peaks func(ctx context.Context, minute int64) map[string]int64
	// Unsent is the path of the file for rows that cannot be written at a stop; "" for none.
	Unsent string
	// Keep is how long hours and days are kept.
	Keep time.Duration
	Now  func() time.Time
	// Trouble notes whether Store is available.
	Trouble *trouble.Registry
	Log     *slog.Logger
}

// Writer writes the rows of an Own to the rule database, each row at most once a minute, and adds up old rows there.
// Run it in one goroutine.
type Writer struct {
	opt WriterOptions
	// left are rows of an earlier process that it could not write.
	left []LiveRow
	// planned is the minute of which queue has the rows that are not written yet. They are written after left, MaxWritten
	// at a time, one chunk each every. stopping: the process ends.
	planned  int64
	queue    []ownRow
	stopping bool
	every    time.Duration
	next     time.Time
	tidy     time.Time
	away     bool
	// written is the end of the newest minute that was written, at first the start, in s since the epoch.
	written atomic.Int64
}

// Lag is the age of the end of the newest minute that this node has written, before the first one of its start. It is
// safe for concurrent use.
func (w *Writer) Lag() time.Duration {
	return max(0, w.opt.Now().Sub(time.Unix(w.written.Load(), 0)))
}

// NewWriter creates a Writer. It reads what an earlier process could not write.
func NewWriter(opt WriterOptions) *Writer {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	w := &Writer{opt: opt, tidy: opt.Now().Add(rand.N(tidyEvery))} //nolint:gosec // not a secret
	w.written.Store(opt.Now().Unix())
	if opt.Unsent != "" {
		w.left = w.load()
	}
	return w
}

// Run writes until ctx ends, and then what is left, together with the running minute: stop before what adds to Own.
func (w *Writer) Run(ctx context.Context) {
	for range tick.Every(ctx, time.Second) {
		w.Step(ctx)
	}
	w.stop(context.WithoutCancel(ctx))
}

// Step writes the due rows. After a failure they are written later.
func (w *Writer) Step(ctx context.Context) {
	now := w.opt.Now()
	w.plan(ctx, now)
	for !now.Before(w.next) && ctx.Err() == nil && len(w.left)+len(w.queue) > 0 {
		w.next = w.next.Add(w.every)
		w.noted(ctx, w.write(ctx))
	}
	if !w.away && !now.Before(w.tidy) {
		w.tidy = now.Add(tidyEvery/2 + rand.N(tidyEvery)) //nolint:gosec // not a secret
		w.noted(ctx, w.tidyUp(ctx, now))
	}
}

// noted notes whether the store is available.
func (w *Writer) noted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if w.away = err != nil; w.away {
		w.next = w.opt.Now().Add(writeRetry)
	}
	w.opt.Trouble.Note(unwritten, "", err)
}

// plan lists the rows of a minute that has ended, once a minute.
func (w *Writer) plan(ctx context.Context, now time.Time) {
	minute := now.Add(-writeAfter).Unix()/60 - 1
	if minute == w.planned {
		return
	}
	if ended := w.opt.Own.lastEnded(); ended > 0 && now.Unix()/60 > ended {
		var peaks map[string]int64
		if w.opt.Peaks != nil {
			peaks = w.opt.Peaks(ctx, ended)
		}
		w.opt.Own.end(peaks, false)
	}
	w.planned = minute
	w.enqueue()
	chunks := (len(w.left)+MaxWritten-1)/MaxWritten + (len(w.queue)+MaxWritten-1)/MaxWritten
	w.every = writeWithin / time.Duration(max(1, chunks))
	w.next = now
}

// enqueue fills the queue with the unwritten rows. Rows that are still queued come first, so that each row has its turn
// when time is short. The rows of all requests come last, because they show which minutes are complete.
func (w *Writer) enqueue() {
	listed := make(map[ownRow]bool, len(w.queue))
	for _, r := range w.queue {
		listed[r] = true
	}
	turn := func(r ownRow) int {
		switch {
		case r.rule == "":
			return 2
		case listed[r]:
			return 0
		}
		return 1
	}
	w.queue = w.opt.Own.dirty(w.stopping)
	slices.SortStableFunc(w.queue, func(a, b ownRow) int { return cmp.Compare(turn(a), turn(b)) })
}

// write writes the next rows: rows of an earlier process first, then rows of the queue.
func (w *Writer) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if n := min(len(w.left), MaxWritten); n > 0 {
		if err := w.store(ctx, w.left[:n]); err != nil {
			return err
		}
		if w.left = w.left[n:]; len(w.left) == 0 {
			w.forget()
		}
		return nil
	}
	n := min(len(w.queue), MaxWritten)
	rows := w.opt.Own.take(w.queue[:n], w.stopping)
	w.queue = w.queue[n:]
	if err := w.store(ctx, rows); err != nil {
		w.opt.Own.again(rows)
		w.enqueue()
		return err
	}
	if len(w.queue) == 0 {
		w.written.Store(max(w.written.Load(), (w.planned+1)*60))
	}
	return nil
}

func (w *Writer) store(ctx context.Context, rows []LiveRow) error {
	if len(rows) == 0 {
		return nil
	}
	leftOut, err := w.opt.Store.WriteStats(ctx, rows)
	if leftOut > 0 {
		w.opt.Log.Warn("figures are older than an hour by the clock of the rules database, so they are lost; "+
			"if this goes on, compare the clock of this machine with that of the database", "rows", leftOut)
	}
	return err
}

// stop writes the running minute and all other unwritten rows, or stores them in a file.
func (w *Writer) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	w.opt.Own.end(nil, true)
	w.stopping = true
	w.enqueue()
	var err error
	for err == nil && (len(w.left) > 0 || len(w.queue) > 0) {
		err = cmp.Or(w.write(ctx), ctx.Err())
	}
	if err == nil {
		return
	}
	rows := slices.Concat(w.left, w.opt.Own.take(w.opt.Own.dirty(true), true))
	if w.opt.Unsent == "" {
		w.opt.Log.Warn("figures could not be written to the rules database and are lost", "rows", len(rows), "error", err)
		return
	}
	if saveErr := w.save(rows); saveErr != nil {
		w.opt.Log.Error("figures could not be written to the rules database, nor kept for the next start; they are lost",
			"rows", len(rows), "file", w.opt.Unsent, "error", errors.Join(err, saveErr))
		return
	}
	w.opt.Log.Warn("figures could not be written to the rules database; the next start of this node writes them",
		"rows", len(rows), "file", w.opt.Unsent, "error", err)
}

// tidyUp adds up rows of processes that write them no more, and deletes rows that are older than they are kept. Every
// node may do so at any time.
func (w *Writer) tidyUp(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	for n := foldRows; n == foldRows; {
		var err error
		if n, err = w.opt.Store.FoldStats(ctx, foldRows); err != nil {
			return err
		}
	}
	hour, day := now.Unix()/3600, now.Unix()/86400
	days := int64(w.opt.Keep / Day)
	for kind, before := range map[Kind]int64{
		KindMinutes: hour - int64(MinutesKept/time.Hour), KindHours: day - days, KindTrials: day - days,
		KindDays: (day - days) / daysABlock,
	} {
		if _, err := w.opt.Store.CleanStats(ctx, kind, before, cleanRows); err != nil {
			return err
		}
	}
	return nil
}
