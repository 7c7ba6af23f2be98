package updates

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/region"
	"sluice/limiter"
)

func TestRecall_AnAskAndAPageArriveAsTheyWereSent(t *testing.T) {
	head := region.Head{From: "us", To: "eu", Prefix: "sl:", At: 1_795_000_000_000, Set: 7}
	ask, err := DecodeAsk(EncodeAsk(&Ask{Head: head, Cursor: "2-17"}))
	if err != nil || *ask != (Ask{head, "2-17"}) {
		t.Errorf("%+v, %v", ask, err)
	}
	sums := limiter.Sums{Born: 1_794_999_999_000, Shape: 61, Taken: 9, Given: 2,
		Windows: []limiter.WindowUnits{{Number: 4, Units: 5}, {Number: 3, Units: 1}}}
	heard := region.Head{From: "eu", To: "eu", Prefix: "sl:", At: head.At}
	page := &Page{Next: "2-18", Messages: []*Message{
		{Head: head, Buckets: []Bucket{{"{user:a}|1|fw", sums}, {"{user:b}|1|fw", limiter.Sums{Born: 5, Reset: 5}}}},
		{Head: heard, Buckets: []Bucket{}},
	}}
	body := EncodePage(page)
	got, err := DecodePage(body, head.At)
	if diff := cmp.Diff(page, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for n := range body {
		cut, err := DecodePage(body[:n], head.At)
		if err == nil && len(cut.Messages) == len(page.Messages) || err != nil && !errors.Is(err, region.ErrMessage) {
			t.Errorf("%d of %d bytes: %+v, %v", n, len(body), cut, err)
		}
	}
	for _, bad := range [][]byte{nil, {Version}, {Version + 1, 0}, append([]byte{Version, 0}, 1, Version+1)} {
		if _, err := DecodeAsk(bad); !errors.Is(err, region.ErrMessage) {
			t.Errorf("ask %v: %v", bad, err)
		}
	}
	many := &Message{Head: head}
	for i := range MaxBuckets/2 + 1 {
		many.Buckets = append(many.Buckets, Bucket{Key: limiter.Key(fmt.Sprint(i))})
	}
	if _, err := DecodePage(EncodePage(&Page{Messages: []*Message{many, many}}), 0); !errors.Is(err, region.ErrMessage) {
		t.Errorf("a page with %d buckets: %v", 2*len(many.Buckets), err)
	}
	if _, err := DecodePage(append([]byte{Version, 0}, 1, Version+1), 0); !errors.Is(err, region.ErrMessage) {
		t.Errorf("a page with a message of another version: %v", err)
	}
}

// Where a page ends or what is in it is for the sender to say, and nothing it says makes the reader panic.
func FuzzDecodePage(f *testing.F) {
	f.Add(EncodePage(&Page{Next: "1", Messages: []*Message{{Head: region.Head{From: "a", To: "b", Prefix: "c"}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodePage(b, 0); err == nil && len(p.Next) > maxCursor {
			t.Errorf("a cursor of %d bytes", len(p.Next))
		}
		_, _ = DecodeAsk(b)
	})
}
