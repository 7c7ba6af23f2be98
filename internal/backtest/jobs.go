package backtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"sluice/internal/tick"
)

// Bounds of Jobs.
const (
	// MaxJobs is how many jobs run at once on a node.
	MaxJobs = 2
	// JobTime is how long a job reads a log. It then reports on the part that it has read.
	JobTime = time.Minute
	// JobKeys is the MaxKeys of a job: a node that answers checks has no memory to spare. With this bound, the two rule
	// sets of a replay take about 40 MB together.
	JobKeys = 100_000

	// jobSlack is how much longer than JobTime a job may take, such as for a topic that is silent.
	jobSlack = 15 * time.Second
	// unwatched is how long a job continues after the last request of a page that polls for its progress.
	unwatched = 10 * time.Second
	// keepJobs and maxKept bound how long ended jobs are kept, and how many.
	keepJobs = 15 * time.Minute
	maxKept  = 16
	// A job works and rests by turns, for turn each, so that it takes at most half of one processor.
	turn = 5 * time.Millisecond
	// lookEvery is the number of lines between two readings of the clock.
	lookEvery = 16
)

var (
	// ErrNoLog means that this node keeps no decision log.
	ErrNoLog = errors.New("this node keeps no decision log")
	// ErrBusy means that MaxJobs jobs of others run already.
	ErrBusy = errors.New("this node has no room for another job")
)

// Work reads a part of a log and returns a Report or Suggestions.
type Work func(ctx context.Context, s Span) (any, error)

// JobOptions configure Jobs.
type JobOptions struct {
	// Open opens the log from an instant on, in ms since the epoch, 0 for all of it. Nil if there is none.
	Open func(ctx context.Context, from int64) (log *Log, closeLog func(), err error)
	// Source says for people where the log is.
	Source string
	// Has says for people which requests the log has, and which setting changes that.
	Has string
	// OneNode means that the log has only what one node decided.
	OneNode bool
	Now     func() time.Time
	Logger  *slog.Logger
}

// JobState is the state of a Job.
type JobState string

// The states.
const (
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobCancelled JobState = "cancelled"
	JobFailed    JobState = "failed"
)

// Job is the state of a job at one moment.
type Job struct {
	ID      string
	Subject any // as given to Start
	State   JobState
	Began   time.Time
	// Events is how many events were read, from First to At, in ms since the epoch.
	Events, First, At int64
	// Result is the result of the Work of a finished job, Err the error of a failed job.
	Result any
	Err    error
}

// Jobs read the decision log of a node in the background: one job for each owner and MaxJobs at once, each on one
// goroutine, at half speed and for at most JobTime. It is safe for concurrent use. Close ends them.
type Jobs struct {
	opt     JobOptions
	mu      sync.Mutex
	of      map[string]*job // by owner
	closed  bool
	running sync.WaitGroup
}

type job struct {
	Job
	cancel context.CancelFunc
	// watched is the time of the last poll by the page of the job, zero if there was none.
	watched time.Time
	ended   time.Time
}

// NewJobs returns Jobs without any.
func NewJobs(opt JobOptions) *Jobs { return &Jobs{opt: opt, of: map[string]*job{}} }

// Source says where the log is; ok is false if there is none.
func (j *Jobs) Source() (source string, ok bool) { return j.opt.Source, j.opt.Open != nil }

// Has says which requests the log has, "" if that is not known.
func (j *Jobs) Has() string { return j.opt.Has }

// OneNode reports whether the log has only what one node decided.
func (j *Jobs) OneNode() bool { return j.opt.OneNode }

// Start starts a job on the events since from, in ms since the epoch, in place of the owner's last one, which is
// cancelled. subject is kept with it. The error is ErrNoLog or ErrBusy.
func (j *Jobs) Start(owner string, from int64, subject any, work Work) (id string, err error) {
	if j.opt.Open == nil {
		return "", ErrNoLog
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget()
	running := 0
	for of, other := range j.of {
		if of != owner && other.State == JobRunning {
			running++
		}
	}
	if j.closed || running >= MaxJobs {
		return "", ErrBusy
	}
	if last := j.of[owner]; last != nil {
		last.cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), JobTime+jobSlack)
	jb := &job{Job: Job{ID: rand.Text(), Subject: subject, State: JobRunning, Began: j.opt.Now()}, cancel: cancel}
	j.of[owner] = jb
	j.running.Go(func() {
		defer cancel()
		result, err := j.do(ctx, jb, from, work)
		j.end(jb, result, err)
	})
	return jb.ID, nil
}

// forget removes jobs that ended long ago, and the oldest ended jobs beyond maxKept.
func (j *Jobs) forget() {
	ended, oldest := 0, ""
	for owner, jb := range j.of {
		switch {
		case jb.State == JobRunning:
		case j.opt.Now().Sub(jb.ended) >= keepJobs:
			delete(j.of, owner)
		default:
			if ended++; oldest == "" || jb.ended.Before(j.of[oldest].ended) {
				oldest = owner
			}
		}
	}
	if ended >= maxKept {
		delete(j.of, oldest)
	}
}

// do opens the log and works. A panic fails the job, and not the node.
func (j *Jobs) do(ctx context.Context, jb *job, from int64, work Work) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			j.opt.Logger.Error("panic in a replay of the decision log", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("an internal error, which the log of the server has")
		}
	}()
	log, closeLog, err := j.opt.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer closeLog()
	return work(ctx, Span{Log: log, From: from, Each: j.pace(ctx, jb)})
}

// pace returns the function Each of a job. It lets all other work of the node go first, notes the progress of the job,
// and ends it.
func (j *Jobs) pace(ctx context.Context, jb *job) func(lines, ts int64) bool {
	rested, calls := j.opt.Now(), 0
	return func(lines, ts int64) bool {
		runtime.Gosched()
		if calls++; calls%lookEvery > 0 {
			return true
		}
		now := j.opt.Now()
		if now.Sub(rested) >= turn {
			tick.Wait(ctx, turn)
			rested = j.opt.Now()
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if jb.Events, jb.At = lines, ts; jb.First == 0 {
			jb.First = ts
		}
		if !jb.watched.IsZero() && now.Sub(jb.watched) >= unwatched {
			jb.State, jb.ended = JobCancelled, now
			jb.cancel()
		}
		return now.Sub(jb.Began) < JobTime
	}
}

// end notes the result of a job.
func (j *Jobs) end(jb *job, result any, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	jb.ended = j.opt.Now()
	switch {
	case jb.State != JobRunning: // it was cancelled
	case errors.Is(err, context.Canceled):
		jb.State = JobCancelled
	case err != nil:
		jb.State, jb.Err = JobFailed, err
	default:
		jb.State, jb.Result = JobDone, result
	}
}

// Find returns the owner's job with an ID. watched says that the page polls for progress: once the polls stop, the job
// is cancelled.
func (j *Jobs) Find(owner, id string, watched bool) (Job, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget()
	jb := j.of[owner]
	if jb == nil || jb.ID != id {
		return Job{}, false
	}
	if watched {
		jb.watched = j.opt.Now()
	}
	return jb.Job, true
}

// Cancel cancels the owner's job with an ID, if it still runs.
func (j *Jobs) Cancel(owner, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if jb := j.of[owner]; jb != nil && jb.ID == id && jb.State == JobRunning {
		jb.State, jb.ended = JobCancelled, j.opt.Now()
		jb.cancel()
	}
}

// Wait waits until no job runs.
func (j *Jobs) Wait() { j.running.Wait() }

// Close cancels all jobs and waits for them until ctx ends.
func (j *Jobs) Close(ctx context.Context) error {
	j.mu.Lock()
	j.closed = true
	for _, jb := range j.of {
		jb.cancel()
	}
	j.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
