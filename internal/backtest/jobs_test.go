package backtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a place whose events come when the test says so: one a millisecond of the log, or none while it is shut.
type gate struct {
	open <-chan struct{}
	n    int64
	wait time.Duration // for each event
}

func (g *gate) Name() string { return "gate" }

func (g *gate) Next(ctx context.Context) ([]byte, int64, error) {
	if g.wait > 0 {
		time.Sleep(g.wait) //nolint:forbidigo // virtual time
	}
	select {
	case <-ctx.Done():
		return nil, g.n, ctx.Err()
	case <-g.open:
	}
	g.n++
	e := check(noon+g.n, "42")
	return e.Append(nil), g.n, nil
}

// jobsOf are jobs on such a place.
func jobsOf(t *testing.T, wait time.Duration) (jobs *Jobs, open chan struct{}, logged *bytes.Buffer) {
	t.Helper()
	open, logged = make(chan struct{}), &bytes.Buffer{}
	jobs = NewJobs(JobOptions{Now: time.Now, Logger: slog.New(slog.NewTextHandler(logged, nil)), Source: "a test",
		Open: func(context.Context, int64) (*Log, func(), error) {
			return NewLog(&gate{open: open, wait: wait}), func() {}, nil
		}})
	return jobs, open, logged
}

// counts reads a log to its end and returns the number of events.
func counts(ctx context.Context, s Span) (any, error) {
	n := 0
	_, err := s.read(ctx, func(*Entry) error { n++; return nil })
	return n, err
}

func start(t *testing.T, jobs *Jobs, owner string) string {
	t.Helper()
	id, err := jobs.Start(owner, 0, "of "+owner, counts)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func state(t *testing.T, jobs *Jobs, owner, id string) Job {
	t.Helper()
	job, ok := jobs.Find(owner, id, false)
	if !ok {
		t.Fatalf("%s has no job", owner)
	}
	return job
}

func TestJobs_OneForEachOwnerAndTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs, _, _ := jobsOf(t, 0)
		first, ada := start(t, jobs, "edda"), start(t, jobs, "ada")
		if _, err := jobs.Start("vera", 0, nil, counts); !errors.Is(err, ErrBusy) {
			t.Errorf("a third: %v", err)
		}
		second := start(t, jobs, "edda")
		synctest.Wait()
		if _, ok := jobs.Find("edda", first, false); ok {
			t.Error("the first job of edda is still there")
		}
		if _, ok := jobs.Find("vera", ada, false); ok {
			t.Error("vera sees the job of ada")
		}
		if got := state(t, jobs, "edda", second); got.State != JobRunning || got.Subject != "of edda" {
			t.Errorf("%+v", got)
		}
		jobs.Cancel("vera", ada)
		jobs.Cancel("ada", "another")
		if got := state(t, jobs, "ada", ada); got.State != JobRunning {
			t.Errorf("cancelled by another: %+v", got)
		}
		jobs.Cancel("ada", ada)
		synctest.Wait()
		if got := state(t, jobs, "ada", ada); got.State != JobCancelled || got.Result != nil {
			t.Errorf("%+v", got)
		}
		vera := start(t, jobs, "vera") // there is room again
		if err := jobs.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := state(t, jobs, "vera", vera); got.State != JobCancelled {
			t.Errorf("after the end of the node: %+v", got)
		}
		if _, err := jobs.Start("vera", 0, nil, counts); !errors.Is(err, ErrBusy) {
			t.Errorf("after the end of the node: %v", err)
		}
	})
}

// A job that takes too long says what it has read, and one whose log is silent fails.
func TestJobs_EndAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs, open, _ := jobsOf(t, 100*time.Millisecond)
		began := time.Now()
		id := start(t, jobs, "edda")
		close(open)
		jobs.Wait()
		got := state(t, jobs, "edda", id)
		if n, _ := got.Result.(int); got.State != JobDone || n < 300 || got.Events < 300 || got.At < got.First {
			t.Errorf("%+v", got)
		}
		if took := time.Since(began); took < JobTime || took > JobTime+5*time.Second {
			t.Errorf("it took %s of virtual time", took)
		}
		silent, _, _ := jobsOf(t, 0)
		id = start(t, silent, "edda")
		silent.Wait()
		if got := state(t, silent, "edda", id); got.State != JobFailed || !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Errorf("%+v", got)
		}
		time.Sleep(keepJobs) //nolint:forbidigo // virtual time
		if _, ok := jobs.Find("edda", id, false); ok {
			t.Error("the result is kept for good")
		}
	})
}

// A job rests as long as it works.
func TestJobs_LeaveHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs, open, _ := jobsOf(t, time.Millisecond) // of work for each event
		id := start(t, jobs, "edda")
		close(open)
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		if got := state(t, jobs, "edda", id); got.Events < 5_000 || got.Events > 8_000 {
			t.Errorf("%d events of 10,000 in the time", got.Events)
		}
		jobs.Cancel("edda", id)
		jobs.Wait()
	})
}

// A job ends soon after its page has stopped to ask.
func TestJobs_EndWithTheirPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs, open, _ := jobsOf(t, time.Millisecond)
		id := start(t, jobs, "edda")
		close(open)
		for range 15 {
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			if got, _ := jobs.Find("edda", id, true); got.State != JobRunning {
				t.Fatalf("%+v", got)
			}
		}
		left := time.Now()
		jobs.Wait()
		if took := time.Since(left); took > unwatched+time.Second {
			t.Errorf("it went on for %s", took)
		}
		if got := state(t, jobs, "edda", id); got.State != JobCancelled {
			t.Errorf("%+v", got)
		}
	})
}

func TestJobs_APanicFailsTheJob(t *testing.T) {
	jobs, _, logged := jobsOf(t, 0)
	id, err := jobs.Start("edda", 0, nil, func(context.Context, Span) (any, error) { panic("a bug") })
	if err != nil {
		t.Fatal(err)
	}
	jobs.Wait()
	if got := state(t, jobs, "edda", id); got.State != JobFailed || got.Err == nil ||
		strings.Contains(got.Err.Error(), "bug") ||
		!strings.Contains(logged.String(), "a bug") {
		t.Errorf("%+v, log %s", got, logged)
	}
}

func TestJobs_KeepFewResults(t *testing.T) {
	jobs := NewJobs(JobOptions{Now: time.Now, Open: func(context.Context, int64) (*Log, func(), error) {
		return NewLog(), func() {}, nil
	}})
	for i := range 3 * maxKept {
		if _, err := jobs.Start(strings.Repeat("x", i), 0, nil, counts); err != nil {
			t.Fatal(err)
		}
		jobs.Wait()
	}
	if len(jobs.of) > maxKept {
		t.Errorf("%d are kept", len(jobs.of))
	}
	if _, err := NewJobs(JobOptions{}).Start("edda", 0, nil, counts); !errors.Is(err, ErrNoLog) {
		t.Errorf("without a log: %v", err)
	}
	failing := NewJobs(JobOptions{Now: time.Now, Open: func(context.Context, int64) (*Log, func(), error) {
		return nil, nil, io.ErrUnexpectedEOF
	}})
	id := start(t, failing, "edda")
	failing.Wait()
	if got := state(t, failing, "edda", id); got.State != JobFailed || !errors.Is(got.Err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v", got)
	}
}
