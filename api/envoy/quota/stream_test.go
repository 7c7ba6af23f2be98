package quota

import (
	"strconv"
	"testing"

	"sluice/limiter"
)

// minute is a bucket of a fixed window of a minute.
var minute = Rule{Key: "k", Limit: 1000, Window: 60_000, Part: 60_000}

// driver drives one stream.
type driver struct {
	t      *testing.T
	book   *Book
	stream *Stream
	now    int64
}

func newDriver(t *testing.T) *driver {
	t.Helper()
	b := NewBook()
	return &driver{t: t, book: b, stream: b.Open(&Caller{}, 10)}
}

func (d *driver) report(allowed, denied int64) {
	d.t.Helper()
	if err := d.stream.Report("a", nil, allowed, denied, d.now); err != nil {
		d.t.Fatal(err)
	}
}

// asks is how much is wanted for the holder that is due, 0 if none is.
func (d *driver) asks(r Rule) (*Holder, int64) {
	list := d.stream.Due(1, d.now)
	if len(list) == 0 {
		return nil, 0
	}
	want, _ := d.book.Want(list[0], r, Demand{}, d.now)
	return list[0], want
}

// gets answers a question with units that live until the end of the minute, and returns the action.
func (d *driver) gets(r Rule, units int64) Action {
	d.t.Helper()
	h, want := d.asks(r)
	if h == nil || units > want {
		d.t.Fatalf("at %d: %d are wanted", d.now, want)
	}
	d.stream.Answered(h, &Answer{Rule: r, Units: units, Life: 60_000 - d.now%60_000, Sent: d.now, Token: units}, d.now)
	list := d.stream.Actions(10, d.now)
	if len(list) != 1 {
		d.t.Fatalf("at %d: actions %+v", d.now, list)
	}
	return list[0]
}

func (d *driver) wantNothing(what string) {
	d.t.Helper()
	if h, want := d.asks(minute); h != nil {
		d.t.Errorf("%s: %d are wanted", what, want)
	}
}

func TestStream_ALumpIsReplacedOnceItIsSpent(t *testing.T) {
	d := newDriver(t)
	d.report(0, 1)
	if a := d.gets(minute, 50); a.Act != Spend || a.Units != 50 || a.TTL != 59 {
		t.Errorf("the first: %+v", a)
	}
	d.now = 5000
	d.report(49, 100)
	d.wantNothing("one unit may be left")
	d.now = 10_000
	d.report(1, 199) // 40 per second for 50 s and a fifth more, of which 950 are left
	if a := d.gets(minute, 950); a.TTL != 49 {
		t.Errorf("the second: %+v", a)
	}
	d.now = 55_000
	d.report(949, 0)
	if at, ok := d.stream.Next(); !ok || at != 60_001 {
		t.Errorf("the next one is due at %d", at)
	}
}

func TestStream_ALumpThatCannotBeToldGoesBack(t *testing.T) {
	d := newDriver(t)
	d.now = 59_001
	d.report(0, 1)
	h, _ := d.asks(minute)
	d.stream.Answered(h, &Answer{Rule: minute, Units: 7, Life: 999, Sent: d.now, Token: "t"}, d.now)
	if list := d.stream.Actions(10, d.now); len(list) != 0 {
		t.Errorf("actions %+v", list)
	}
	if r := d.stream.Returns(); len(r) != 1 || r[0] != (Return{Token: "t", Back: 7}) {
		t.Errorf("returns %+v", r)
	}
	d.now = 60_000
	d.wantNothing("before the end of the window")
	d.now = 60_001
	d.gets(minute, 50)
}

// A stream that follows on a broken one may have its lump.
func TestStream_AFreshOneWaitsForADenial(t *testing.T) {
	d := newDriver(t)
	d.report(10, 0)
	d.wantNothing("it spends")
	d.now = 5000
	d.report(10, 0)
	d.wantNothing("it still spends")
	d.now = 10_000
	d.report(10, 1)
	d.gets(minute, 50)
}

func TestStream_ASilentProxyGetsNothing(t *testing.T) {
	d := newDriver(t)
	d.report(0, 1)
	d.gets(minute, 50)
	for _, d.now = range []int64{11_001, 59_002} {
		d.wantNothing("so long after a report")
		if at, ok := d.stream.Next(); !ok || at != 60_000 {
			t.Errorf("at %d, due at %d", d.now, at)
		}
	}
	d.now = 60_001
	d.report(0, 1)
	h, _ := d.asks(minute)
	d.now += maxSilence + 1
	d.stream.Answered(h, &Answer{Rule: minute, Units: 50, Life: 40_000, Sent: d.now, Token: "t"}, d.now)
	if list, back := d.stream.Actions(10, d.now), d.stream.Returns(); len(list) != 0 || len(back) != 1 {
		t.Errorf("actions %+v, returns %+v", list, back)
	}
}

func TestStream_TwoReportsLongAfterItsEndGiveTheRestOfALumpBack(t *testing.T) {
	d, hour := newDriver(t), Rule{Key: "k", Limit: 60_000, Window: 3_600_000, Part: 3_600_000}
	d.report(0, 1)
	h, _ := d.asks(hour)
	d.stream.Answered(h, &Answer{Rule: hour, Units: 50, Life: 3_000_000, Sent: 0, Token: "t"}, d.now)
	if list := d.stream.Actions(10, d.now); len(list) != 1 || list[0].TTL != 60 {
		t.Fatalf("actions %+v", list)
	}
	for d.now = 5000; d.now < 75_000; d.now += 5000 {
		d.report(1, 0)
		if r := d.stream.Returns(); len(r) != 0 {
			t.Fatalf("at %d: returns %+v", d.now, r)
		}
	}
	d.report(1, 0)
	if r := d.stream.Returns(); len(r) != 1 || r[0] != (Return{Token: "t", Spent: 15, Back: 35}) {
		t.Errorf("returns %+v", r)
	}
}

// Reports that were sent before the end of a lump arrive together after it, or are frequent.
func TestStream_ReportsThatComeTogetherCountOnce(t *testing.T) {
	d, hour := newDriver(t), Rule{Key: "k", Limit: 60_000, Window: 3_600_000, Part: 3_600_000}
	d.report(0, 1)
	h, _ := d.asks(hour)
	d.stream.Answered(h, &Answer{Rule: hour, Units: 50, Life: 3_000_000, Sent: 0, Token: "t"}, d.now)
	d.stream.Actions(10, d.now)
	for _, d.now = range []int64{60_000, 60_001, 65_999, 66_000, 66_001, 67_000, 69_999} {
		d.report(1, 0)
		if r := d.stream.Returns(); len(r) != 0 {
			t.Fatalf("at %d: returns %+v", d.now, r)
		}
	}
	d.now = 70_000
	d.report(1, 0)
	if r := d.stream.Returns(); len(r) != 1 || r[0] != (Return{Token: "t", Spent: 8, Back: 42}) {
		t.Errorf("returns %+v", r)
	}
}

// The sum of what a proxy reports may be more than an int64 can hold.
func TestStream_HugeCountsGiveNothingBack(t *testing.T) {
	d, hour := newDriver(t), Rule{Key: "k", Limit: 60_000, Window: 3_600_000, Part: 3_600_000}
	d.report(0, 1)
	h, _ := d.asks(hour)
	d.stream.Answered(h, &Answer{Rule: hour, Units: 50, Life: 3_000_000, Sent: 0, Token: "t"}, d.now)
	d.stream.Actions(10, d.now)
	for range 1025 { // 2^10 of them are almost 2^63
		d.report(limiter.MaxExact, limiter.MaxExact)
	}
	for d.now = 66_000; d.now <= 76_000; d.now += 5000 {
		d.report(0, 0)
		if r := d.stream.Returns(); len(r) != 0 {
			t.Errorf("at %d: returns %+v", d.now, r)
		}
	}
}

func TestStream_AnIdleBucketIsAbandoned(t *testing.T) {
	d := newDriver(t)
	d.report(0, 1)
	d.gets(minute, 50)
	for d.now = 5000; d.now <= 65_000; d.now += 5000 {
		d.report(0, 0)
		d.wantNothing("it is idle")
		if list := d.stream.Actions(10, d.now); len(list) != 0 {
			t.Errorf("at %d: actions %+v", d.now, list)
		}
	}
	d.report(0, 0)
	d.wantNothing("it is idle")
	if list := d.stream.Actions(10, d.now); len(list) != 1 || list[0].Act != Abandon {
		t.Errorf("actions %+v", list)
	}
	if d.book.Holders() != 0 || len(d.book.shared) != 0 {
		t.Errorf("the book still has %d holders", d.book.Holders())
	}
}

// A proxy that no longer has a bucket does not say so: its next reports leave it out.
func TestStream_ABucketThatNoReportNamesIsAbandoned(t *testing.T) {
	d := newDriver(t)
	other := func() {
		t.Helper()
		if err := d.stream.Report("b", map[string]string{"b": ""}, 1, 0, d.now); err != nil {
			t.Fatal(err)
		}
	}
	d.report(0, 1)
	d.gets(minute, 50) // it lives until 59,000
	for d.now = 5000; d.now < 60_000; d.now += 5000 {
		other()
		d.wantNothing("it spends what it has")
		if list := d.stream.Actions(10, d.now); len(list) != 0 {
			t.Errorf("at %d: actions %+v", d.now, list)
		}
	}
	other()
	if d.wantNothing("it is not there any more"); d.book.Holders() != 2 {
		t.Errorf("%d holders", d.book.Holders())
	}
	if list := d.stream.Actions(10, d.now); len(list) != 1 || list[0].Act != Abandon || list[0].Bucket != nil {
		t.Errorf("actions %+v", list)
	}
	if d.book.Holders() != 1 || d.book.names != 1 || len(d.book.shared) != 0 {
		t.Errorf("the book still has %d holders, %d buckets", d.book.Holders(), len(d.book.shared))
	}
}

// Two holders, and one on another node, with different demands.
func TestBook_DividesByDemand(t *testing.T) {
	d := newDriver(t)
	for id, denied := range map[string]int64{"low": 10, "high": 1000} {
		if err := d.stream.Report(id, nil, 0, denied, 0); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{}
	for range 2 { // the demand of both is known the second time
		for _, h := range d.stream.holders {
			want[h.ID], _ = d.book.Want(h, minute, Demand{Holders: 1, PerSecond: 200}, 0)
		}
	}
	if want["low"] != 145 || want["high"] != 428 { // 2 per second and a fifth more, and half of the rest
		t.Errorf("wanted: %v", want)
	}
}

// However many holders share a bucket, few are looked at, and each gets its part.
func TestBook_ManyHoldersOfABucket(t *testing.T) {
	const n = 20_000
	b, r := NewBook(), Rule{Key: "k", Limit: 2_000_000, Window: 60_000, Part: 60_000}
	s := b.Open(&Caller{}, n)
	for i := range n {
		if err := s.Report(strconv.Itoa(i), nil, 0, 100, 0); err != nil { // 20 per second, 1,440 in a window
			t.Fatal(err)
		}
	}
	list := s.Due(n, 0)
	for _, h := range list {
		b.join(h, r.Key)
	}
	if seen, part := b.sample(r.Key); len(seen) != maxSeen || part != n/maxSeen {
		t.Errorf("%d are looked at, each stands for %g", len(seen), part)
	}
	if got := b.Demand(list[0], r.Key); got.Holders != n || int(got.PerSecond+0.5) != 20*n {
		t.Errorf("demand %+v", got)
	}
	for _, h := range []*Holder{list[0], list[1], list[n-1]} {
		if want, _ := b.Want(h, r, Demand{}, 0); want < 99 || want > 101 {
			t.Errorf("%s wants %d of 100", h.ID, want)
		}
	}
	s.Close()
	if len(b.shared) != 0 {
		t.Errorf("the book still has %d buckets", len(b.shared))
	}
}
