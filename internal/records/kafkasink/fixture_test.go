package kafkasink

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"sluice/internal/records"
	"sluice/internal/trouble"
)

const topicName = "sluice.decisions"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake starts a cluster in the process.
func fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, topicName)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fixture is a Sink with what a Log has besides.
type fixture struct {
	*Sink
	t     testing.TB
	opt   Options
	log   *logged
	first int           // number of the first event that is written
	next  int           // and of the next
	ahead *atomic.Int64 // of the clock
	// unpacked is how many batches were read that are compressed.
	unpacked atomic.Int64
}

// pass sets the clock of the sink, though not of its client, forward.
func (f *fixture) pass(d time.Duration) { f.ahead.Add(int64(d)) }

// newSink opens a sink on a topic. Options that are set are kept.
func newSink(t testing.TB, brokers []string, opt Options) *fixture {
	t.Helper()
	log := &logged{changed: make(chan struct{})}
	opt.Brokers, opt.Account, opt.Log = brokers, &records.Account{}, slog.New(slog.NewJSONHandler(log, nil))
	ahead := new(atomic.Int64)
	opt.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	opt.Trouble = trouble.New(opt.Log, opt.Now, nil)
	if opt.Topic == "" {
		opt.Topic = topicName
	}
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{ahead: ahead, Sink: s, t: t, opt: opt, log: log}
}

// line and key are those of event n: a few hundred bytes, and one of 50 keys.
func line(n int) string {
	return fmt.Sprintf(`{"schema":1,"n":%d,"pad":"%s"}`, n, padding[:200+n%300])
}

var padding = strings.Repeat("p", 500)

func key(n int) string { return keys[n%len(keys)] }

var keys = func() (all []string) {
	for i := range 50 {
		all = append(all, fmt.Sprintf("key%d", i))
	}
	return all
}()

// write writes n events, in batches.
func (f *fixture) write(n int) {
	f.t.Helper()
	var b records.Batch
	for range n {
		b.Lines, b.Keys = append(b.Lines, []byte(line(f.next)+"\n")), append(b.Keys, key(f.next))
		f.next++
		if len(b.Lines) == 100 {
			f.Write(b)
			b = records.Batch{}
		}
	}
	f.Write(b)
}

// written is how many events were written.
func (f *fixture) written() int64 { return int64(f.next - f.first) }

// flush waits until the sink has nothing left.
func (f *fixture) flush() {
	f.t.Helper()
	if err := f.Sink.flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// close drains the sink.
func (f *fixture) close() {
	f.t.Helper()
	if err := f.Close(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// stop closes the sink by force.
func (f *fixture) stop() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	cancel()
	if err := f.Close(ctx); err != nil {
		f.t.Errorf("a stop with events left is an error: %v", err)
	}
}

// totals closes the sum: everything that was written is in the account once.
func (f *fixture) totals() records.Totals {
	f.t.Helper()
	got := f.opt.Account.Totals()
	sum := got.Delivered + got.Doubtful
	for _, n := range got.Dropped {
		sum += n
	}
	if sum != f.written() {
		f.t.Errorf("the account has %d events, written were %d: %+v", sum, f.written(), got)
	}
	oldest, l := f.Oldest(), f.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	// Until Close the client may still have to finish with what is in the account.
	if !oldest.IsZero() || l.open > 0 || l.shut && len(l.events)+len(l.encoded) > 0 {
		f.t.Errorf("the ledger still has %d open events of %d, %d batches", l.open, len(l.events), len(l.encoded))
	}
	return got
}

// want compares the account.
func (f *fixture) want(delivered int64, dropped map[string]int64, doubtful int64) {
	f.t.Helper()
	got := f.totals()
	for _, r := range records.Reasons() {
		if _, ok := dropped[r.String()]; !ok {
			if dropped == nil {
				dropped = map[string]int64{}
			}
			dropped[r.String()] = 0
		}
	}
	if got.Delivered != delivered || got.Doubtful != doubtful || !cmp.Equal(got.Dropped, dropped) {
		f.t.Errorf("delivered %d, dropped %v, doubtful %d\nwant %d, %v, %d", got.Delivered, got.Dropped, got.Doubtful,
			delivered, dropped, doubtful)
	}
}

// entry is a record of the topic.
type entry struct{ key, value string }

// proves holds the topic to the account: each event is there at most once, as it was written and in the order of its
// key, and there are between delivered and delivered + doubtful.
func (f *fixture) proves(topic []entry) {
	f.t.Helper()
	total := f.totals()
	if n := int64(len(topic)); n < total.Delivered || n > total.Delivered+total.Doubtful {
		f.t.Errorf("the topic has %d events, delivered are %d, doubtful %d", n, total.Delivered, total.Doubtful)
	}
	seen, last := map[int]bool{}, map[string]int{}
	for _, e := range topic {
		n := number(f.t, e)
		if n < f.first || n >= f.next || e.key != key(n) || e.value != line(n) {
			f.t.Fatalf("the topic has %q with key %q, which was not written", e.value, e.key)
		}
		if seen[n] {
			f.t.Errorf("event %d is in the topic twice", n)
		}
		seen[n] = true
		if n < last[e.key] {
			f.t.Errorf("event %d of %s comes after %d", n, e.key, last[e.key])
		}
		last[e.key] = n
	}
}

// number is the number of an event.
func number(t testing.TB, e entry) int {
	t.Helper()
	var line struct{ N int }
	if err := json.Unmarshal([]byte(e.value), &line); err != nil {
		t.Fatal(err)
	}
	return line.N
}

// readBack reads the whole topic.
func (f *fixture) readBack(opts ...kgo.Opt) []entry {
	f.t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(f.opt.Brokers...), kgo.ConsumeTopics(f.opt.Topic),
		kgo.WithDecompressor(unpack{f}), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond)}, opts...)
	if f.opt.Dial != nil {
		opts = append(opts, kgo.Dialer(f.opt.Dial))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(f.t.Context(), f.opt.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	var most int64
	ends.Each(func(o kadm.ListedOffset) { most += o.Offset })
	var all []entry
	for int64(len(all)) < most {
		fetches := c.PollFetches(f.t.Context())
		if err := fetches.Err(); err != nil {
			f.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, entry{string(r.Key), string(r.Value)}) })
	}
	return all
}

// unpack reads batches, whose compression must be that of the options. The client's own keeps decoders, which do not
// outlive a bubble of synctest.
type unpack struct{ f *fixture }

func (u unpack) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	want := map[string]kgo.CompressionCodecType{"": kgo.CodecGzip, "gzip": kgo.CodecGzip, "zstd": kgo.CodecZstd,
		"none": kgo.CodecNone}[u.f.opt.Compression]
	u.f.unpacked.Add(1)
	switch {
	case codec != want:
		return nil, fmt.Errorf("a batch has codec %d, not %d", codec, want)
	case codec == kgo.CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case codec == kgo.CodecNone:
		return src, nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(src, nil)
}

// logged is a log that tests wait for.
type logged struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(b)
}

func (l *logged) lines() ([]string, chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n"), l.changed
}

// wait waits for the nth line and returns it.
func (l *logged) wait(t testing.TB, n int) string {
	t.Helper()
	for {
		lines, changed := l.lines()
		if len(lines) >= n && lines[n-1] != "" {
			return lines[n-1]
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("no line %d in %q", n, lines)
		}
	}
}

// want holds the log to a text in each line.
func (l *logged) want(t testing.TB, texts ...string) {
	t.Helper()
	lines, _ := l.lines()
	for i, text := range texts {
		if len(lines) != len(texts) || !strings.Contains(lines[i], text) {
			t.Fatalf("logged:\n%s\nwant lines with %q", strings.Join(lines, "\n"), texts)
		}
	}
	if len(texts) == 0 && lines[0] != "" {
		t.Errorf("logged:\n%s\nwant nothing", strings.Join(lines, "\n"))
	}
}

// brokersOf are the brokers of the suite: of a real cluster if SLUICE_KAFKA_TEST_BROKERS names it, else of a fake one.
// The topic is new.
func brokersOf(t testing.TB) (brokers []string, topic string) {
	t.Helper()
	env := os.Getenv("SLUICE_KAFKA_TEST_BROKERS")
	if env == "" {
		return fake(t).ListenAddrs(), topicName
	}
	brokers = strings.Split(env, ",")
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	admin := kadm.NewClient(c)
	topic = fmt.Sprintf("%s.test.%d", topicName, time.Now().UnixNano())
	if _, err := admin.CreateTopic(t.Context(), 4, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.DeleteTopics(context.Background(), topic); err != nil {
			t.Error(err)
		}
	})
	return brokers, topic
}

// wires dials connections that break.
type wires struct {
	mu sync.Mutex
	// answers, if it is not nil, is closed when answers may pass.
	answers chan struct{}
	// cut is asked before each write of n bytes, if that may be a produce request with events: how many of them are
	// written before the connection breaks, -1 for all without a break.
	cut func(n int) int
	// wrote has a value after a write that may be a produce request with events.
	wrote chan struct{}
}

// smallest is less than a produce request of the tests, and more than any other request.
const smallest = 1000

func newWires(cut func(n int) int) *wires { return &wires{cut: cut, wrote: make(chan struct{}, 1)} }

type wire struct {
	net.Conn
	wires  *wires
	closed chan struct{}
	once   sync.Once
}

func (w *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, wires: w, closed: make(chan struct{})}, nil
}

// hold keeps answers back from now on.
func (w *wires) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = make(chan struct{})
}

// release lets answers pass.
func (w *wires) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.answers)
	w.answers = nil
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.wires.mu.Lock()
	answers := w.wires.answers
	w.wires.mu.Unlock()
	if answers != nil {
		select {
		case <-answers:
		case <-w.closed:
			return 0, net.ErrClosed
		}
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	at := -1
	if len(b) >= smallest {
		w.wires.mu.Lock()
		if w.wires.cut != nil {
			at = w.wires.cut(len(b))
		}
		w.wires.mu.Unlock()
		defer func() {
			select {
			case w.wires.wrote <- struct{}{}:
			default:
			}
		}()
	}
	if at < 0 {
		return w.Conn.Write(b)
	}
	n, _ := w.Conn.Write(b[:at])
	return n, errOrNil(n < len(b), w.Close)
}

// errOrNil closes and returns an error if the write is not whole; else it closes alone, so that no answer comes.
func errOrNil(short bool, end func() error) error {
	_ = end()
	if short {
		return net.ErrClosed
	}
	return nil
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}
