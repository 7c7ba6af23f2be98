package traces

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
	"sluice/internal/traces/collector"
	"sluice/internal/trouble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// buffer is a log.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// open returns Traces that export to a collector.
func open(t *testing.T) (*Traces, *collector.Collector, *buffer) {
	t.Helper()
	c, log := collector.Start(t), &buffer{}
	lines := slog.New(slog.NewTextHandler(log, nil))
	traces, err := Open(Options{Version: "v1", Log: lines, Now: time.Now, Trouble: trouble.New(lines, time.Now, nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := traces.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return traces, c, log
}

// flushed returns the spans that have ended, by name.
func flushed(t *testing.T, traces *Traces, c *collector.Collector) map[string][]collector.Span {
	t.Helper()
	if err := traces.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := map[string][]collector.Span{}
	for _, s := range c.Spans() {
		out[s.GetName()] = append(out[s.GetName()], s)
	}
	return out
}
