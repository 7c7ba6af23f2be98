package kafkasink

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/records"
	"sluice/internal/testenv"
)

// The suite runs on a fake cluster, and by make test-kafka on a real one.

func TestCluster_DeliversEachEventOnce(t *testing.T) {
	brokers, topic := brokersOf(t)
	f := newSink(t, brokers, Options{Connection: Connection{Topic: topic}})
	f.write(5000)
	f.close()
	f.want(5000, nil, 0)
	f.proves(f.readBack())
	f.log.want(t)
}

// Each batch has the compression of the options. kcat, which is built on librdkafka, another implementation, reads it.
func TestCluster_CompressesAsSet(t *testing.T) {
	for _, compression := range []string{"", "gzip", "zstd", "none"} {
		t.Run(compression, func(t *testing.T) {
			brokers, topic := brokersOf(t)
			f := newSink(t, brokers, Options{Connection: Connection{Topic: topic}, Compression: compression})
			f.write(3000)
			f.close()
			f.want(3000, nil, 0)
			f.proves(kcat(t, brokers, topic))
			f.proves(f.readBack())
			if compressed := f.unpacked.Load() > 0; compressed != (compression != "none") {
				t.Errorf("%d batches are compressed", f.unpacked.Load())
			}
		})
	}
}

func TestOpen_RefusesAnUnknownCompression(t *testing.T) {
	opt := Options{Connection: Connection{Brokers: []string{"127.0.0.1:1"}, Topic: topicName}, Compression: "snappy",
		Account: &records.Account{}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	if _, err := Open(opt); err == nil || !strings.Contains(err.Error(), `"snappy": use gzip, zstd or none`) {
		t.Errorf("got %v", err)
	}
}

// kcat reads a topic with Debian's kcat.
func kcat(t *testing.T, brokers []string, topic string) []entry {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t, "kcat", "kcat"), "-C", "-b", strings.Join(brokers, ","),
		"-t", topic, "-o", "beginning", "-e", "-q", "-f", `%k\t%s\n`)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kcat: %v\n%s", err, out)
	}
	var all []entry
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, entry{key, value})
	}
	return all
}

func TestCluster_LostConnections(t *testing.T) {
	brokers, topic := brokersOf(t)
	random := rand.New(rand.NewPCG(1, 2))
	lost := 0
	w := newWires(func(n int) int {
		if lost == 60 || random.IntN(3) > 0 {
			return -1
		}
		lost++
		return random.IntN(2) * n / (1 + random.IntN(2)) // nothing, a half, or all of it but without an answer
	})
	f := newSink(t, brokers, Options{Connection: Connection{Topic: topic, Dial: w.dial}})
	for range 30 {
		f.write(200)
		f.flush()
	}
	f.close()
	if lost == 0 {
		t.Error("no connection was lost")
	}
	f.want(6000, nil, 0)
	f.proves(f.readBack())
}

func TestCluster_ForcedStop_DoubtsOnlyWhatWasOnTheWire(t *testing.T) {
	brokers, topic := brokersOf(t)
	w := newWires(nil)
	f := newSink(t, brokers, Options{Connection: Connection{Topic: topic, Dial: w.dial}})
	f.write(1000)
	f.flush()

	w.hold()
	<-w.wrote
	f.write(2000)
	<-w.wrote
	sent := f.onWire()
	f.stop()
	w.release()
	total := f.totals()
	f.log.want(t, fmt.Sprintf(`"dropped":%d,"doubtful":%d,`, total.Dropped["shutdown"], total.Doubtful))
	if sent == 0 || total.Delivered != 1000 || total.Doubtful < int64(sent) ||
		total.Dropped["shutdown"] != 2000-total.Doubtful {
		t.Errorf("got %+v, at least %d were on the wire", total, sent)
	}
	f.proves(f.readBack())
}

// onWire is how many events are on the wire.
func (f *fixture) onWire() int {
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	n := 0
	for _, e := range f.ledger.events {
		n += min(e.waiting, 1)
	}
	return n
}

// Whatever happens, the sum closes and the topic holds what the account says.
func TestCluster_StopsAtAnyMoment(t *testing.T) {
	brokers, topic := brokersOf(t)
	var sums records.Totals
	for i := range 20 {
		random := rand.New(rand.NewPCG(3, uint64(i)))
		breaks := rand.New(rand.NewPCG(4, uint64(i)))
		w := newWires(func(n int) int {
			if breaks.IntN(4) > 0 {
				return -1
			}
			return breaks.IntN(2) * n / (1 + breaks.IntN(2))
		})
		f := newSink(t, brokers, Options{Connection: Connection{Topic: topic, Dial: w.dial}})
		f.first, f.next = i*1_000_000, i*1_000_000
		for range random.IntN(5) {
			f.write(100 + random.IntN(800))
			if random.IntN(3) > 0 {
				<-w.wrote
			}
		}
		f.stop()
		sums.Delivered, sums.Doubtful = sums.Delivered+f.totals().Delivered, sums.Doubtful+f.totals().Doubtful
		var mine []entry
		for _, e := range f.readBack() {
			if n := number(t, e); n >= f.first && n < f.next {
				mine = append(mine, e)
			}
		}
		f.proves(mine)
	}
	if sums.Delivered == 0 || sums.Doubtful == 0 {
		t.Errorf("%+v: the stops were not at any moment", sums)
	}
}

func TestClose_WithoutEvents(t *testing.T) {
	f := newSink(t, fake(t).ListenAddrs(), Options{})
	if err := f.Close(context.Background()); err != nil {
		t.Error(err)
	}
	f.want(0, nil, 0)
	f.log.want(t)
}

// A stop while Kafka does not answer is no error. The log has what was left.
func TestClose_LogsTheEventsThatWereLeft(t *testing.T) {
	f := newSink(t, []string{testenv.FreeAddr(t)}, Options{})
	f.write(100)
	bytes := 0
	for n := range 100 {
		bytes += len(key(n)) + len(line(n))
	}
	f.log.wait(t, 1) // nobody listens there
	f.stop()
	f.want(0, map[string]int64{"shutdown": 100}, 0)
	f.log.want(t, "they wait, and those it does not take in time",
		fmt.Sprintf(`"dropped":100,"doubtful":0,"bytes":%d,`, bytes))
}
