package kafkasink

import (
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// The reader returns what the sink wrote, each event once and those of a bucket in order, and ends.
func TestReader_ReadsWhatTheTopicHas(t *testing.T) {
	c := fake(t, kfake.NumBrokers(2))
	f := newSink(t, c.ListenAddrs(), Options{})
	const n = 20_000 // more than a partition may be ahead
	for range 2 {    // all at once they could be more than the client holds
		f.write(n / 2)
		f.flush()
	}
	f.close()
	f.want(n, nil, 0)
	to := Connection{Brokers: c.ListenAddrs(), Topic: topicName}
	r, err := OpenReader(t.Context(), to, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := map[string]int{}
	for _, p := range r.Partitions() {
		last := int64(-1)
		for {
			line, offset, err := p.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if offset <= last {
				t.Fatalf("%s: offset %d after %d", p.Name(), offset, last)
			}
			last = offset
			seen[string(line)]++
		}
	}
	if len(seen) != n {
		t.Errorf("%d different events of %d", len(seen), n)
	}

	later, err := OpenReader(t.Context(), to, time.Now().Add(time.Hour).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	for _, p := range later.Partitions() {
		if _, _, err := p.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%s has events of the future: %v", p.Name(), err)
		}
	}
}

func TestReader_NamesWhatIsWrong(t *testing.T) {
	c := fake(t)
	for name, to := range map[string]Connection{
		"topic":  {Brokers: c.ListenAddrs(), Topic: "other"},
		"broker": {Brokers: []string{"127.0.0.1:" + strconv.Itoa(1)}, Topic: topicName},
		"SASL":   {Brokers: c.ListenAddrs(), Topic: topicName, SASL: "plain"},
	} {
		if r, err := OpenReader(t.Context(), to, 0); err == nil {
			r.Close()
			t.Errorf("%s: opened", name)
		}
	}
}
