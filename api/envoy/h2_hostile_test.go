package envoy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// TestLoop_AWatchPassesAStalledCall: an answer whose stream has no window holds up no other stream.
func TestLoop_AWatchPassesAStalledCall(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.ask(1, "a")
	c.settle("stalled")
	c.headers(3, false, c.call(":path", grpc_health_v1.Health_Watch_FullMethodName)...)
	c.must(c.framer.WriteWindowUpdate(3, 1000))
	c.data(3, true, prefixed(""))
	for !strings.Contains(strings.Join(c.said, "\n"), "3: 00000000020801") {
		if !c.read() {
			t.Fatalf("it says %q", c.said)
		}
	}
}

// TestLoop_DrainsAConnectionThatIsClosing once: its timer does not fire again and again.
func TestLoop_DrainsAConnectionThatIsClosing(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c, _, begun := f.piped()
	<-begun // the write of the settings, which the client does not read
	c.drain(drainStop)
	c.mu.Lock()
	c.fail(http2.ErrCodeProtocol, "")
	c.final = clock().Add(-time.Second)
	c.mu.Unlock()
	aged := make(chan struct{})
	go func() {
		defer close(aged)
		c.age()
	}()
	c.abort()
	<-aged
	if !c.final.IsZero() {
		t.Error("what was due at c.final stays due")
	}
}

// TestLoop_ManyWindowUpdatesAreCheap: the answers that wait are not looked at for each of them.
func TestLoop_ManyWindowUpdatesAreCheap(t *testing.T) {
	const calls, updates = 1000, 2_000_000
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range uint32(calls) {
		c.ask(1+2*i, "a")
	}
	c.settle("stalled")
	c.write(strings.Repeat(string(appendWindow(nil, 0, 1)), updates))
	c.settle("updated")
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: defaultWindow}))
	for i := range uint32(calls) {
		c.await(1 + 2*i)
	}
	if got := strings.Count(c.heard(), "grpc-status=0"); got != calls {
		t.Errorf("%d calls are answered, want %d", got, calls)
	}
}

// TestLoop_BoundsWhatItWrites for headers that are short, and whose refusals are long.
func TestLoop_BoundsWhatItWrites(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	_, client, _ := f.piped()
	c := f.rawWithout()
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	c.framer = http2.NewFramer(&sent, nil)
	c.must(c.framer.WriteSettings())
	long := c.call("x-bin", strings.Repeat("\xff", 2000)) // one byte, from the second call on
	for i := range uint32(3000) {
		c.headers(1+2*i, true, long...)
	}
	c.must(c.framer.WriteContinuation(1, true, nil)) // ends the connection
	go func() { _, _ = client.Write(sent.Bytes()) }()
	largest, all := 0, 0
	for b := make([]byte, 64<<20); ; {
		n, err := client.Read(b) // a whole write
		if largest, all = max(largest, n), all+n; err != nil {
			break
		}
	}
	if all < 10*mostOut || largest > 2*mostOut {
		t.Errorf("of %d bytes, %d are written at once", all, largest)
	}
}

// TestLoop_CallsThatTimeOutAreNoFlood: clients cancel them when they have come with their messages already.
func TestLoop_CallsThatTimeOutAreNoFlood(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw()
	conn := c.conn
	var sent bytes.Buffer
	c.framer = http2.NewFramer(&sent, conn)
	const calls = 3 * resetBurst
	for i := range uint32(calls) {
		c.ask(1+2*i, "a")
		c.must(c.framer.WriteRSTStream(1+2*i, http2.ErrCodeCancel))
	}
	c.ask(1+2*calls, "a")
	go func() { _, _ = conn.Write(sent.Bytes()) }()
	c.framer = http2.NewFramer(conn, conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	c.await(1 + 2*calls)
	if c.closed || f.counted("flood", floodResets) != 0 {
		t.Errorf("closed: %t, %d floods", c.closed, f.counted("flood", floodResets))
	}
}

// TestLoop_GRPCAnswersThroughSmallWindows: what the window allows is sent before grpc-go waits for more, and a client
// that never allows the rest does not keep its goroutine.
func TestLoop_GRPCAnswersThroughSmallWindows(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.ask(1, "a")
	for _, id := range []uint32{3, 5} {
		c.headers(id, false, c.call(":path", grpc_health_v1.Health_List_FullMethodName)...)
		c.data(id, true, prefixed(""))
		for from := fmt.Sprintf("%d: 00", id); !strings.Contains(strings.Join(c.said, "\n"), from); {
			if !c.read() {
				t.Fatalf("it says %q", c.said)
			}
		}
	}
	c.must(c.framer.WriteWindowUpdate(3, 1000))
	c.await(3)
	if got := c.heard(); !strings.HasSuffix(got, "3: grpc-status=0") {
		t.Errorf("it says %q", got)
	}
	f.server.loop.all()[0].expire(clock().Add(longestCall + time.Second))
	c.await(5)
	if got := c.heard(); !strings.Contains(got, "5: reset CANCEL") {
		t.Errorf("it says %q", got)
	}
}
