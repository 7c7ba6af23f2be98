package backtest

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/limiter"
	"sluice/rules/match"
)

var (
	writeTo     = flag.String("write", "", "write the log of TestSample to this file, compressed")
	sampleCount = flag.Int("requests", 6000, "number of requests in it")
	sampleHours = flag.Int("hours", 1, "hours over which they are spread")
	sampleRate  = flag.Float64("rate", 25, "percentage of users whose allowed requests are in it")
)

// The files of docs/backtest.md.
const (
	sampleLog   = "../../docs/backtest/decisions.jsonl.gz"
	sampleToday = "../../docs/backtest/today.yaml"
)

// shop plays n requests of a shop's users at random within an hour, which today's rules decide. One user, nightly-sync,
// charges in bursts, and one, price-bot, searches all the time.
func shop(t *testing.T, r *recorded, n int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a log that can be made again
	users := max(40, n/150)
	for i := range n {
		time.Sleep(time.Duration(*sampleHours) * time.Hour / time.Duration(n)) //nolint:forbidigo // virtual time
		// Squaring makes the first users the busiest.
		user := int(rnd.Float64() * rnd.Float64() * float64(users))
		q := decide.Question{Weight: 1, Op: limiter.OpTake, Origin: decide.Origin{Face: "http", UserAgent: "shop/2.1"},
			Descriptor: match.Descriptor{Method: "GET", Route: "/v1/search", User: fmt.Sprintf("customer-%d", user+1),
				IP: netip.AddrFrom4([4]byte{203, 0, byte(user >> 8), byte(user)})}}
		d := &q.Descriptor
		switch k, into := rnd.IntN(100), i%(n/6+1); {
		case into < n/60 && k < 75:
			d.Method, d.Route, d.User = "POST", "/v1/charges", "nightly-sync"
			d.IP = netip.AddrFrom4([4]byte{198, 51, 100, 7})
		case k < 12 && i > n/2:
			d.User, d.IP = "price-bot", netip.AddrFrom4([4]byte{192, 0, 2, 66})
		case k < 30:
			d.Route = "/v1/orders"
		case k < 40:
			d.Method, d.Route = "POST", "/v1/charges"
		}
		var a decide.Answer
		if err := r.checker.Do(t.Context(), &q, &a); err != nil {
			t.Fatal(err)
		}
	}
}

// sample returns the log of a shop.
func sample(t *testing.T, into io.Writer) {
	t.Helper()
	text, err := os.ReadFile(sampleToday)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		// Half a millisecond beside the ticks of the log, so that their order is always the same.
		start := time.Date(2026, 11, 23, 9, 0, 0, 500_000, time.UTC)
		time.Sleep(time.Until(start)) //nolint:forbidigo // virtual time
		r := newRecorded(t, compiled(t, string(text)), into, *sampleRate, records.AddressWhole)
		shop(t, r, *sampleCount)
		r.close(t)
	})
}

// The log that docs/backtest.md works on is what the project makes of seeded traffic. With -write it is made anew.
func TestSample(t *testing.T) {
	if *writeTo != "" {
		f, err := os.Create(*writeTo)
		if err != nil {
			t.Fatal(err)
		}
		z, _ := gzip.NewWriterLevel(f, gzip.BestSpeed)
		if *writeTo == sampleLog {
			z, _ = gzip.NewWriterLevel(f, gzip.BestCompression)
		}
		sample(t, z)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	var got bytes.Buffer
	sample(t, &got)
	f, err := os.Open(sampleLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	// The events at the end of one second are in no order.
	sorted := func(text []byte) []string { return slices.Sorted(strings.Lines(string(text))) }
	if a, b := sorted(got.Bytes()), sorted(want); !slices.Equal(a, b) {
		t.Errorf("%s has %d events that are not the %d of the program: run make backtest-sample", sampleLog, len(b), len(a))
	}
}
