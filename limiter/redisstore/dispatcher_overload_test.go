package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
)

// patient makes a batch of n requests whose server has within, and whose caller waits until turn for it to be sent.
func patient(n int, within, turn time.Duration) *batch {
	b := newBatch(n)
	for range n {
		b.add()
	}
	now := wallTime()
	b.bind(&limiter.Bound{Start: now, Deadline: now.Add(within), Turn: now.Add(turn)})
	return b
}

const within, turn = 21 * time.Millisecond, 80 * time.Millisecond

// send submits a batch and takes it out for a call.
func send(t *testing.T, d *dispatcher, b *batch) (batches []*batch, call int) {
	t.Helper()
	if err := d.submit(b); err != nil {
		t.Fatal(err)
	}
	batches, call, _ = d.next(nil)
	return batches, call
}

// wantEnd waits for a batch and fails unless it ends so long after start, with that cause.
func wantEnd(t *testing.T, d *dispatcher, b *batch, start time.Time, after time.Duration, cause limiter.Cause,
	unknown bool) {
	t.Helper()
	err := d.wait(context.Background(), nil, b)
	var se *limiter.StoreError
	if !errors.As(err, &se) || se.Cause != cause || se.Unknown != unknown {
		t.Errorf("got %v, want %s, unknown %v", err, cause, unknown)
	}
	if took := wallTime().Sub(start); took != after {
		t.Errorf("answered after %s, want %s", took, after)
	}
}

// TestDispatcher_OfferedTooMuchStillDoesItsBest sends more than a server can do. What it can do is done, and
// everything else is overload: nothing looks like an outage.
func TestDispatcher_OfferedTooMuchStillDoesItsBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			call, each = 100 * time.Microsecond, 10 * time.Microsecond
			length     = 300 * time.Millisecond
			callers    = 200
			size       = 100
		)
		d := newDispatcher(size, 10_000)
		var wg sync.WaitGroup
		wg.Go(func() { // the server, behind one connection
			for {
				batches, slot, _ := d.next(nil)
				if len(batches) == 0 {
					return
				}
				n := 0
				for _, b := range batches {
					n += len(b.requests)
				}
				<-time.After(call + time.Duration(n)*each)
				d.finish(slot, batches, nil, succeeded)
			}
		})
		var mu sync.Mutex
		answered, overload := 0, 0
		end := wallTime().Add(length)
		var load sync.WaitGroup
		for range callers {
			load.Go(func() {
				for wallTime().Before(end) {
					b := patient(size, within, turn)
					err := d.submit(b)
					if err == nil {
						err = d.wait(context.Background(), nil, b)
					}
					mu.Lock()
					switch {
					case err == nil:
						answered += size
					case limiter.CauseOf(err) == limiter.CauseOverload:
						overload += size
					default:
						t.Errorf("got %v", err)
					}
					mu.Unlock()
					if err != nil {
						<-time.After(time.Millisecond) // spent on the answer
					}
				}
			})
		}
		load.Wait()
		d.close()
		wg.Wait()
		best := int(length/(call+size*each)) * size
		if answered < best*9/10 {
			t.Errorf("%d of %d possible requests were answered", answered, best)
		}
		if overload == 0 {
			t.Error("the server did more than it can")
		}
	})
}

// While calls return, what waits is held beyond the store timeout, and sent when its turn comes.
func TestDispatcher_HoldsWhatWaitsWhileTheServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(3, 100)
		waiting := patient(3, within, turn)
		for range 7 { // 70 ms
			batches, call := send(t, d, patient(3, within, turn))
			if d.queue.Len() == 0 && !waiting.isSent {
				if err := d.submit(waiting); err != nil {
					t.Fatal(err)
				}
			}
			// Others are always in front.
			d.mu.Lock()
			d.queue.Remove(&waiting.place)
			d.mu.Unlock()
			<-time.After(10 * time.Millisecond)
			d.mu.Lock()
			d.queue.Push(&waiting.place, waiting, 3, 0)
			d.look(wallTime())
			if d.queue.Len() != 3 {
				t.Fatal("what waits was given up while the server answers")
			}
			d.queue.Remove(&waiting.place)
			d.mu.Unlock()
			d.finish(call, batches, nil, succeeded)
		}
		d.mu.Lock()
		d.queue.Push(&waiting.place, waiting, 3, 0)
		d.mu.Unlock()
		if got, _, _ := d.next(nil); len(got) != 1 || got[0] != waiting {
			t.Error("what was held is not sent")
		}
	})
}

func TestDispatcher_WhoFindsNoTurnIsOverloadAndWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, impatient := range []bool{false, true} {
			d := newDispatcher(10, 100)
			first, call := send(t, d, patient(9, within, turn))
			start := wallTime()
			waiting := patient(1, within, turn)
			waiting.requests[0].Impatient, waiting.impatient = impatient, impatient
			if err := d.submit(waiting); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond)
			d.mu.Lock()
			d.calls[call].batches = d.calls[call].batches[:1]
			d.succeeded = wallTime() // another call has returned
			d.mu.Unlock()
			after := turn
			if impatient {
				after = within
			}
			wantEnd(t, d, waiting, start, after, limiter.CauseOverload, false)
			if d.queue.Len() != 0 {
				t.Errorf("%d requests are still in the queue", d.queue.Len())
			}
			d.finish(call, first, nil, succeeded)
			d.close()
			d.drain()
		}
	})
}

// A batch of a caller with several requests is denied request by request.
func TestDispatcher_DeniesTheImpatientOfABatchAndSendsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(10, 100)
		first, call := send(t, d, patient(9, within, turn))
		b := patient(2, within, turn)
		b.requests[0].Impatient, b.impatient = true, true
		if err := d.submit(b); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
		d.mu.Lock()
		d.succeeded = wallTime()
		d.mu.Unlock()
		<-time.After(within)
		d.finish(call, first, nil, succeeded)
		if got, _, _ := d.next(nil); len(got) != 1 || got[0] != b {
			t.Fatal("the patient request is not sent")
		}
		if b.requests[0].Err != errOverload || b.requests[1].Err != nil { //nolint:errorlint // the very error
			t.Errorf("got %v and %v, want overload and none", b.requests[0].Err, b.requests[1].Err)
		}
	})
}

// Who waits behind a server that does not answer is decided by the fail mode as soon as that is certain: when a call
// that was made after the first silence gets no answer either.
func TestDispatcher_AnswersWhoWaitsForAServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(10, 100)
		first, call := send(t, d, patient(3, within, turn))
		<-time.After(5 * time.Millisecond)
		start := wallTime()
		waiting, later := patient(1, within, turn), patient(1, within, turn)
		if err := d.submit(waiting); err != nil {
			t.Fatal(err)
		}
		<-time.After(within - 5*time.Millisecond)
		d.finish(call, first, nil, silent) // after the store timeout
		second, call, _ := d.next(nil)     // what waits is sent now
		if len(second) != 1 || second[0] != waiting {
			t.Fatal("what waits was given up after a single silence")
		}
		if err := d.submit(later); err != nil {
			t.Fatal(err)
		}
		later.start, later.deadline = start, start.Add(within)
		<-time.After(within - time.Millisecond)
		if len(later.done)+len(waiting.done) != 0 {
			t.Error("given up before the second silence")
		}
		<-time.After(time.Millisecond)
		d.finish(call, second, nil, silent)
		wantEnd(t, d, later, start, 2*within-5*time.Millisecond, limiter.CauseTimeout, false)
		third, call, _ := func() ([]*batch, int, time.Time) {
			if err := d.submit(patient(1, within, turn)); err != nil {
				t.Fatal(err)
			}
			return d.next(nil)
		}()
		wantEnd(t, d, third[0], start, 3*within-5*time.Millisecond, limiter.CauseTimeout, true) // while its call lasts
		d.finish(call, third, nil, succeeded)
		if d.isFailing() {
			t.Error("it answers again")
		}
	})
}

func TestDispatcher_KnowsWhenTheServerFails(t *testing.T) {
	at := func(n int) time.Time { return time.UnixMilli(int64(1_000_000 + n)) }
	type step struct {
		how         ended
		began, done int
		failing     bool
	}
	for name, steps := range map[string][]step{
		"refused":                     {{failed, 0, 1, true}},
		"three calls at once":         {{silent, 0, 21, false}, {silent, 5, 26, false}, {silent, 20, 41, false}},
		"and one after them":          {{silent, 0, 21, false}, {silent, 5, 26, false}, {silent, 22, 43, true}},
		"it answers in between":       {{silent, 0, 21, false}, {succeeded, 22, 23, false}, {silent, 24, 45, false}},
		"it answers another call":     {{succeeded, 10, 11, false}, {failed, 0, 21, false}},
		"what says nothing":           {{silent, 0, 21, false}, {nothing, 22, 43, false}},
		"until it answers":            {{failed, 0, 1, true}, {nothing, 2, 3, true}, {succeeded, 4, 5, false}},
		"refused while it was silent": {{silent, 0, 21, false}, {failed, 1, 22, true}},
	} {
		d := newDispatcher(1, 1)
		for i, s := range steps {
			d.learn(s.how, at(s.began), at(s.done))
			if d.failing != s.failing {
				t.Errorf("%s, call %d: failing is %v", name, i, d.failing)
			}
		}
	}
}

// A caller with a deadline of its own is answered by then, and by its fail mode if the server has answered nobody
// since.
func TestDispatcher_KeepsTheCallersOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const own = 13 * time.Millisecond
		d := newDispatcher(10, 100)
		start := wallTime()
		bound := limiter.Bound{Start: start, Deadline: start.Add(own), Turn: start.Add(own), Hard: start.Add(own)}
		sent, waiting := patient(3, within, turn), patient(1, within, turn)
		sent.bind(&bound)
		waiting.bind(&bound)
		batches, call := send(t, d, sent)
		if err := d.submit(waiting); err != nil {
			t.Fatal(err)
		}
		wantEnd(t, d, waiting, start, own, limiter.CauseTimeout, false)
		wantEnd(t, d, sent, start, own, limiter.CauseTimeout, true)
		d.finish(call, batches, nil, nothing)
		d.close()
		d.drain()
	})
}

func TestDispatcher_WhoseCallWasNeverWrittenWaitsInFront(t *testing.T) {
	d := newDispatcher(1, 100)
	first, call := send(t, d, patient(1, time.Hour, time.Hour))
	second := queue(t, d, 1)[0]
	first[0].requests[0].Err = errUnwritten
	d.finish(call, first, nil, nothing)
	if len(first[0].done) != 0 {
		t.Fatal("it was answered")
	}
	for _, want := range []*batch{first[0], second} {
		got, call, _ := d.next(nil)
		if len(got) != 1 || got[0] != want || got[0].requests[0].Err != nil {
			t.Fatal("not sent again, or not in front")
		}
		d.finish(call, got, nil, succeeded)
	}
	if d.queue.Len() != 0 {
		t.Errorf("%d requests are counted in the queue", d.queue.Len())
	}
}

// On a cluster, a call is one for each server: one may be answered while there is no connection to another.
func TestDispatcher_OfACallThatWasPartlyWrittenTheRestWaitsAgain(t *testing.T) {
	d := newDispatcher(2, 100)
	queue(t, d, 1, 1)
	both, call, _ := d.next(nil)
	if len(both) != 2 {
		t.Fatalf("%d batches are sent together", len(both))
	}
	both[1].requests[0].Err = errUnwritten
	d.finish(call, both, nil, succeeded)
	if len(both[0].done) != 1 || len(both[1].done) != 0 {
		t.Fatal("want the first answered, and the second not")
	}
	if got, _, _ := d.next(nil); len(got) != 1 || got[0] != both[1] || got[0].requests[0].Err != nil {
		t.Error("the second is not sent again")
	}
}
