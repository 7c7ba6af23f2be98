package kafkasink

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/records"
)

// Each row is the life of one event.
func TestLedger(t *testing.T) {
	send := func(l *ledger, e *event) []*event {
		l.encode(7, []uint64{e.id})
		events, ok := l.write(7)
		if !ok {
			t.Fatal("the batch may not be written")
		}
		return events
	}
	for name, tt := range map[string]struct {
		live func(l *ledger, e *event)
		want string
	}{
		"never sent, given up": {func(l *ledger, e *event) { l.fail(e, records.TooOld) }, "too_old"},
		"never sent, stopped":  {func(l *ledger, _ *event) { l.close() }, "shutdown"},
		"taken":                {func(l *ledger, e *event) { l.answer(send(l, e), taken) }, "delivered"},
		"taken, and the client says so": {func(l *ledger, e *event) {
			l.answer(send(l, e), taken)
			l.deliver(e)
		}, "delivered"},
		"taken, sent again": {func(l *ledger, e *event) { // the client ignored the answer
			l.answer(send(l, e), taken)
			l.answer(send(l, e), taken)
			l.deliver(e)
		}, "delivered"},
		"encoded again, then taken": {func(l *ledger, e *event) {
			sent := send(l, e)
			l.encode(7, []uint64{e.id})
			l.answer(sent, taken)
			if _, ok := l.write(7); !ok {
				t.Error("a delivered event is not sent again")
			}
		}, "delivered"},
		"refused, given up": {func(l *ledger, e *event) {
			l.answer(send(l, e), refused)
			l.fail(e, records.Refused)
		}, "refused"},
		"given up before it is refused": {func(l *ledger, e *event) {
			sent := send(l, e)
			l.fail(e, records.Refused)
			l.answer(sent, refused)
		}, "refused"},
		"given up before it is taken": {func(l *ledger, e *event) {
			sent := send(l, e)
			l.fail(e, records.Refused)
			l.answer(sent, taken)
		}, "delivered"},
		"unsure, given up": {func(l *ledger, e *event) {
			l.answer(send(l, e), unsure)
			l.fail(e, records.TooOld)
		}, "doubtful"},
		"unsure, refused, given up": {func(l *ledger, e *event) {
			l.answer(send(l, e), unsure)
			l.answer(send(l, e), refused)
			l.fail(e, records.TooOld)
		}, "doubtful"},
		"unsure, taken": {func(l *ledger, e *event) {
			l.answer(send(l, e), unsure)
			l.answer(send(l, e), taken)
		}, "delivered"},
		"sent, stopped": {func(l *ledger, e *event) {
			sent := send(l, e)
			l.close()
			l.answer(sent, taken) // too late
			l.fail(e, records.Refused)
		}, "doubtful"},
		"given up, then not written": {func(l *ledger, e *event) {
			l.encode(7, []uint64{e.id})
			l.fail(e, records.TooOld)
			if _, ok := l.write(7); ok {
				t.Error("a dropped event is written")
			}
		}, "too_old"},
		"encoded again after it was given up": {func(l *ledger, e *event) {
			l.fail(e, records.TooOld)
			l.encode(8, []uint64{e.id})
			if _, ok := l.write(8); ok {
				t.Error("a dropped event is written")
			}
		}, "too_old"},
		"stopped, then not written": {func(l *ledger, e *event) {
			l.encode(7, []uint64{e.id})
			l.close()
			if _, ok := l.write(7); ok {
				t.Error("a dropped event is written")
			}
		}, "shutdown"},
	} {
		t.Run(name, func(t *testing.T) {
			account := &records.Account{}
			l := newLedger(account)
			l.delivered = func() {}
			e := l.add(100, time.Now())
			tt.live(l, e)
			total := account.Totals()
			got := map[string]int64{"delivered": total.Delivered, "doubtful": total.Doubtful}
			for name, n := range total.Dropped {
				got[name] = n
			}
			for name, n := range got {
				if n == 0 {
					delete(got, name)
				}
			}
			if diff := cmp.Diff(map[string]int64{tt.want: 1}, got); diff != "" {
				t.Error(diff)
			}
			l.fail(e, records.ClientFull) // the client has no more to say of what is in the account
			if got := account.Totals(); !cmp.Equal(got, total) {
				t.Errorf("the account became %+v", got)
			}
			if len(l.events)+len(l.encoded)+l.size+l.open > 0 || !l.oldest().IsZero() {
				t.Error("the ledger is not empty")
			}
		})
	}
}

// Who waited for the last event finds it in the account.
func TestLedger_CountsBeforeItIsIdle(t *testing.T) {
	account := &records.Account{}
	l := newLedger(account)
	for n := range int64(20_000) {
		e := l.add(100, time.Now())
		go l.fail(e, records.TooOld)
		if err := l.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := account.Totals().Dropped["too_old"]; got != n+1 {
			t.Fatalf("%d events are in the account, want %d", got, n+1)
		}
	}
}

func TestLedger_HasBounds(t *testing.T) {
	l := newLedger(&records.Account{})
	for l.add(maxBytes/8, time.Now()) != nil {
	}
	if len(l.events) != 8 {
		t.Errorf("%d events of an eighth of the bytes", len(l.events))
	}
	l.close()
	for l.add(1, time.Now()) != nil {
	}
	if l.open != maxEvents {
		t.Errorf("%d events", len(l.events))
	}
}
