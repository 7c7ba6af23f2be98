package envoy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// calm is what a connection says that is closed because of a flood.
const calm = "goaway ENHANCE_YOUR_CALM "

// TestLoop_KeepsToHTTP2 is a table of frames of a client and of what the server says about them. Each connection has
// had a call before, on stream 1.
func TestLoop_KeepsToHTTP2(t *testing.T) {
	raw := func(c *rawClient, kind http2.FrameType, flags http2.Flags, id uint32, payload string) {
		c.must(c.framer.WriteRawFrame(kind, flags, id, []byte(payload)))
	}
	open := func(c *rawClient) { c.headers(3, false, c.call()...) }
	for _, tt := range []struct {
		name string
		send func(c *rawClient)
		want string // all that the server says; "" for nothing. A call that is answered is "3: answered".
	}{
		{"nothing", func(*rawClient) {}, ""},
		{"a call", func(c *rawClient) { c.ask(3, "42") }, "3: answered"},
		{"padding and a priority", func(c *rawClient) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode(c.call()...),
				EndHeaders: true, PadLength: 7, Priority: http2.PriorityParam{StreamDep: 1, Weight: 9}}))
			c.must(c.framer.WriteDataPadded(3, true, []byte(c.message("42")), make([]byte, 200)))
		}, "3: answered"},
		{"headers in many frames", func(c *rawClient) {
			block := c.encode(c.call("x-long", "some value")...)
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block[:1]}))
			for i := range block[1:] {
				c.must(c.framer.WriteContinuation(3, i == len(block)-2, block[1+i:2+i]))
			}
			c.data(3, true, c.message("42"))
		}, "3: answered"},
		{"trailers", func(c *rawClient) {
			open(c)
			c.data(3, false, c.message("42"))
			c.headers(3, true, "x-more", "1")
		}, "3: answered"},
		{"trailers that do not end the stream", func(c *rawClient) {
			open(c)
			c.headers(3, false, "x-more", "1")
		}, "3: reset PROTOCOL_ERROR"},
		{"priorities, and frames that are unknown", func(c *rawClient) {
			c.must(c.framer.WritePriority(9, http2.PriorityParam{StreamDep: 1}))
			raw(c, 0x77, 0xff, 3, "whatever")
			c.ask(3, "42")
		}, "3: answered"},
		{"a cancellation", func(c *rawClient) {
			open(c)
			c.must(c.framer.WriteRSTStream(3, http2.ErrCodeCancel))
			c.data(3, true, c.message("42")) // was on its way
		}, ""},
		{"a cancellation that is read with its call", func(c *rawClient) {
			c.atOnce(func() {
				c.ask(3, "42")
				c.must(c.framer.WriteRSTStream(3, http2.ErrCodeCancel))
			})
			c.atOnce(func() { // which must not share its memory
				c.ask(5, "42")
				c.ask(7, "42")
				c.must(c.framer.WriteRSTStream(7, http2.ErrCodeCancel))
			})
			c.await(5)
			c.said = nil
		}, ""},
		{"an even stream", func(c *rawClient) { c.headers(4, true, c.call()...) },
			"goaway PROTOCOL_ERROR a client opens odd streams\nclosed"},
		{"an earlier stream", func(c *rawClient) {
			c.ask(5, "42")
			c.await(5)
			c.heard()
			c.headers(3, true, c.call()...)
		}, ""},
		{"DATA of an idle stream", func(c *rawClient) { c.data(3, true, "x") },
			"goaway PROTOCOL_ERROR DATA of an idle stream\nclosed"},
		{"RST_STREAM of an idle stream", func(c *rawClient) { c.must(c.framer.WriteRSTStream(3, 0)) },
			"goaway PROTOCOL_ERROR RST_STREAM of an idle stream\nclosed"},
		{"WINDOW_UPDATE of an idle stream", func(c *rawClient) { c.must(c.framer.WriteWindowUpdate(3, 1)) },
			"goaway PROTOCOL_ERROR WINDOW_UPDATE of an idle stream\nclosed"},
		{"WINDOW_UPDATE of nothing to an idle stream", func(c *rawClient) { c.must(c.framer.WriteWindowUpdate(99, 0)) },
			"goaway PROTOCOL_ERROR \nclosed"},
		{"WINDOW_UPDATE of nothing to a stream", func(c *rawClient) {
			open(c)
			c.must(c.framer.WriteWindowUpdate(3, 0))
		}, "3: reset PROTOCOL_ERROR"},
		{"too much padding in headers", func(c *rawClient) { // which change the table of HPACK
			raw(c, http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 3, "\xff"+string(c.encode("x", "y")))
		}, "goaway PROTOCOL_ERROR \nclosed"},
		{"WINDOW_UPDATE of nothing", func(c *rawClient) { c.must(c.framer.WriteWindowUpdate(0, 0)) },
			"goaway PROTOCOL_ERROR \nclosed"},
		{"a window that is too large", func(c *rawClient) { c.must(c.framer.WriteWindowUpdate(0, maxWindow)) },
			"goaway FLOW_CONTROL_ERROR \nclosed"},
		{"a window of a stream that is too large", func(c *rawClient) {
			open(c)
			c.must(c.framer.WriteWindowUpdate(3, maxWindow))
		}, "3: reset FLOW_CONTROL_ERROR"},
		{"settings that are not valid", func(c *rawClient) {
			c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}))
		}, "goaway FLOW_CONTROL_ERROR \nclosed"},
		{"settings that overflow a window", func(c *rawClient) {
			open(c)
			c.must(c.framer.WriteWindowUpdate(3, maxWindow-defaultWindow))
			c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow}))
		}, "goaway FLOW_CONTROL_ERROR \nclosed"},
		{"settings of a stream", func(c *rawClient) { raw(c, http2.FrameSettings, 0, 3, "") },
			"goaway PROTOCOL_ERROR \nclosed"},
		{"an odd size of settings", func(c *rawClient) { raw(c, http2.FrameSettings, 0, 0, "x") },
			"goaway FRAME_SIZE_ERROR \nclosed"},
		{"a frame that is too large", func(c *rawClient) {
			open(c)
			raw(c, http2.FrameData, 0, 3, strings.Repeat("x", maxFrame+1))
		}, "goaway FRAME_SIZE_ERROR \nclosed"},
		{"a promise", func(c *rawClient) {
			raw(c, http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 3, "\x00\x00\x00\x02")
		},
			"goaway PROTOCOL_ERROR a client promises nothing\nclosed"},
		{"CONTINUATION of nothing", func(c *rawClient) { c.must(c.framer.WriteContinuation(3, true, nil)) },
			"goaway PROTOCOL_ERROR \nclosed"},
		{"another frame between headers", func(c *rawClient) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode(":method", "POST")}))
			c.must(c.framer.WritePing(false, [8]byte{}))
		}, "goaway PROTOCOL_ERROR \nclosed"},
		{"a header block that is not valid", func(c *rawClient) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff,
				0xff, 0xff}, EndHeaders: true}))
		}, "goaway COMPRESSION_ERROR \nclosed"},
		{"a header block that is cut short", func(c *rawClient) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x00, 0x05},
				EndHeaders: true}))
		}, "goaway COMPRESSION_ERROR \nclosed"},
		{"names in capitals", func(c *rawClient) { c.headers(3, true, c.call("X-Y", "1")...) }, "3: reset PROTOCOL_ERROR"},
		{"a value with a line break", func(c *rawClient) { c.headers(3, true, c.call("x", "a\nb")...) },
			"3: reset PROTOCOL_ERROR"},
		{"a pseudo-header twice", func(c *rawClient) { c.headers(3, true, append([]string{":path", "/"}, c.call()...)...) },
			"3: reset PROTOCOL_ERROR"},
		{"an unknown pseudo-header", func(c *rawClient) { c.headers(3, true, append([]string{":x", "/"}, c.call()...)...) },
			"3: reset PROTOCOL_ERROR"},
		{"a pseudo-header at the end", func(c *rawClient) {
			c.headers(3, true, append(c.call(":path", "-"), ":path", "/x")...)
		}, "3: reset PROTOCOL_ERROR"},
		{"headers above the limit", func(c *rawClient) {
			c.headers(3, true, c.call("x", strings.Repeat("x", maxHeaderList-100))...)
		}, "3: reset FRAME_SIZE_ERROR"},
		{"headers far above the limit", func(c *rawClient) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode(c.call()...)}))
			for range 3 {
				c.must(c.framer.WriteContinuation(3, false, c.encode("x", strings.Repeat("\x01", maxFrame-100))))
			}
		}, calm + floodContinuations + "\nclosed"},
		{"headers in too many frames", func(c *rawClient) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode(c.call()...)}))
			for range mostContinuations + 1 {
				c.must(c.framer.WriteContinuation(3, false, nil))
			}
		}, calm + floodContinuations + "\nclosed"},
		{"DATA after the end", func(c *rawClient) {
			c.headers(3, false, c.call(":path", grpc_health_v1.Health_Watch_FullMethodName)...)
			c.data(3, true, prefixed(""))
			for len(c.said) < 2 && c.read() {
			}
			c.heard()
			c.data(3, true, "more")
		}, "3: reset STREAM_CLOSED"},
		{"a message above the limit", func(c *rawClient) {
			open(c)
			c.data(3, false, "\x00\x00\x01\x00\x01")
			c.data(3, true, "on its way")
		}, "3: :status=200 content-type=application/grpc grpc-message=grpc: received message larger than max (65537 vs. " +
			"65536) grpc-status=8\n3: reset NO_ERROR"},
		{"empty DATA", func(c *rawClient) {
			open(c)
			for range 2 * emptyBurst {
				c.data(3, false, "")
			}
		}, calm + floodEmpty + "\nclosed"},
		{"settings again and again", func(c *rawClient) {
			for range 2 * settingsBurst {
				c.must(c.framer.WriteSettings())
			}
		}, calm + floodSettings + "\nclosed"},
		{"pings again and again", func(c *rawClient) {
			for range mostStrikes + 3 {
				c.must(c.framer.WritePing(false, [8]byte{}))
			}
		}, calm + "too_many_pings\nclosed"},
		{"calls that are canceled again and again", func(c *rawClient) {
			for i := range uint32(2 * resetBurst) {
				c.headers(3+2*i, false, c.call()...)
				c.must(c.framer.WriteRSTStream(3+2*i, http2.ErrCodeCancel))
			}
		}, calm + floodResets + "\nclosed"},
		{"too many streams", func(c *rawClient) {
			for i := range uint32(maxStreams) {
				c.headers(5+2*i, false, c.call()...)
			}
			c.headers(5+2*maxStreams, false, c.call()...)
		}, fmt.Sprintf("%d: reset REFUSED_STREAM", 5+2*maxStreams)},
		{"a smaller table", func(c *rawClient) {
			c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}))
			c.ask(3, "42")
		}, "3: answered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, byLoop, perUser(5))
			f.server.messageWait = time.Hour
			c := f.raw()
			c.ask(1, "first")
			c.await(1)
			c.settle("before")
			first := c.heard()
			tt.send(c)
			if strings.HasSuffix(tt.want, "closed") {
				for c.read() {
				}
			} else {
				c.settle("after")
			}
			if tt.want == "3: answered" {
				c.await(3)
			}
			got := c.heard()
			if tt.want == "3: answered" && got == strings.ReplaceAll(first, "1: ", "3: ") {
				got = tt.want
			}
			if got != tt.want {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
			flood, isFlood := strings.CutPrefix(strings.TrimSuffix(tt.want, "\nclosed"), calm)
			if flood == "too_many_pings" {
				flood = floodPings
			}
			if isFlood && f.counted("flood", flood) != 1 {
				t.Errorf("%d floods are counted", f.counted("flood", flood))
			}
		})
	}
}

// TestHeaders_SayOnceThatTheyUseNoTable: a client that makes its table smaller expects to read that in the next block.
func TestHeaders_SayOnceThatTheyUseNoTable(t *testing.T) {
	c := &h2conn{}
	c.headers(1, []byte{fieldOK}, false)
	c.headers(3, []byte{fieldOK}, true)
	want := "\x00\x00\x02\x01\x04\x00\x00\x00\x01\x20\x88" + "\x00\x00\x01\x01\x05\x00\x00\x00\x03\x88"
	if got := string(c.out); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLoop_FirstFrames: what a connection has to begin with.
func TestLoop_FirstFrames(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	for name, begin := range map[string]func(c *rawClient){
		"no settings": func(c *rawClient) { c.must(c.framer.WritePing(false, [8]byte{})) },
		"an acknowledgment of settings": func(c *rawClient) {
			c.must(c.framer.WriteSettingsAck())
		},
	} {
		c := f.rawWithout()
		c.write(http2.ClientPreface)
		begin(c)
		for c.read() {
		}
		if got := c.heard(); got != "goaway PROTOCOL_ERROR the first frame is not SETTINGS\nclosed" {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}

// TestLoop_KeepsItsConnections: those that begin with a call of Envoy or about the health.
func TestLoop_KeepsItsConnections(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	for n, path := range []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName,
		authv3.Authorization_Check_FullMethodName, grpc_health_v1.Health_Check_FullMethodName} {
		c := f.raw()
		c.headers(1, false, c.call(":path", path)...)
		c.data(1, true, prefixed(""))
		c.await(1)
		if got := len(f.server.loop.all()); got != n+1 || c.settings != 1 {
			t.Errorf("%s: the loop has %d connections, want %d; %d acknowledged settings", path, got, n+1, c.settings)
		}
	}
}

// TestLoop_GivesOtherConnectionsToGRPC with all that was read: pings were answered, settings are acknowledged once.
func TestLoop_GivesOtherConnectionsToGRPC(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	c.settle("ping")
	c.must(c.framer.WriteWindowUpdate(0, 1<<20))
	c.headers(1, false, c.call(":path", grpc_health_v1.Health_Watch_FullMethodName)...)
	c.data(1, true, prefixed(""))
	for len(c.said) < 2 && c.read() {
	}
	if got := c.heard(); got != "1: :status=200 content-type=application/grpc\n1: 00000000020801" {
		t.Errorf("the watch says %q", got)
	}
	if n := len(f.server.loop.all()); n != 0 {
		t.Errorf("the loop has %d connections", n)
	}
	c.ask(3, "42")
	c.await(3)
	if got := c.heard(); !strings.Contains(got, "grpc-status=0") {
		t.Errorf("a call says %q", got)
	}
	if c.settings != 1 || c.acked["sping\x00\x00\x00"] != 1 {
		t.Errorf("settings were acknowledged %d times, pings %v", c.settings, c.acked)
	}
}

// TestLoop_GivesTheWindowBack: a client can send as much as it likes, in calls that are no larger than others.
func TestLoop_GivesTheWindowBack(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw()
	sent := 0
	for i := range uint32(40) {
		id := 1 + 2*i
		c.headers(id, false, c.call(":path", grpc_health_v1.Health_Check_FullMethodName)...)
		for _, data := range split(prefixed("\x12\xfc\xff\x02" + strings.Repeat("x", 49148))) {
			c.data(id, false, data)
			sent += len(data)
		}
		c.data(id, true, "")
		c.await(id)
	}
	if left := defaultWindow + c.window - sent; left < receiveWindow/2 || left > receiveWindow {
		t.Errorf("the client has %d of %d bytes left", left, receiveWindow)
	}
}

// TestLoop_AnswersWaitForTheWindow of the stream and of the connection, and pass through it in pieces.
func TestLoop_AnswersWaitForTheWindow(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c := f.raw(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.ask(1, "a")
	c.ask(3, "b")
	c.settle("first")
	for strings.Count(strings.Join(c.said, " "), "3: ") < 2 && c.read() {
	}
	if got := c.heard(); strings.Contains(got, "grpc-status") {
		t.Errorf("an answer is complete: %q", got)
	}
	c.must(c.framer.WriteWindowUpdate(3, 1<<20))
	c.await(3)
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}))
	c.await(1)
	if got := c.heard(); strings.Count(got, "grpc-status=0") != 2 {
		t.Errorf("it says %q", got)
	}
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}))
	c.ask(5, "c")
	for strings.Count(strings.Join(c.said, " "), "5: ") < 2 && c.read() {
	}
	c.must(c.framer.WriteRSTStream(5, http2.ErrCodeCancel)) // whose answer waits
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}))
	c.settle("canceled")
	if got := c.heard(); strings.Count(got, "5: ") != 2 {
		t.Errorf("it says %q", got)
	}
	var last uint32 = 7
	for spent := 0; spent < 1<<17; last += 2 { // until the window of the connection is full
		c.ask(last, fmt.Sprint(last))
		c.settle(fmt.Sprint(last))
		if !c.done[last] {
			for n := len(c.said); len(c.said) == n && !c.done[last] && spent < defaultWindow && c.read(); {
			}
		}
		spent += 500
	}
	if c.done[last-2] {
		t.Fatal("the window of the connection does not hold answers")
	}
	c.must(c.framer.WriteWindowUpdate(0, 1<<20))
	c.await(last - 2)
}

// TestLoop_ReadsOnWhileABatchIsUnderWay: pings, cancellations and other calls do not wait for it.
func TestLoop_ReadsOnWhileABatchIsUnderWay(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	f.store.fault = func(ctx context.Context) error {
		entered <- struct{}{}
		<-leave
		return gone(ctx)
	}
	c := f.raw()
	for i := range uint32(maxBatches) { // one call a batch
		if i == maxBatches-1 {
			c.must(c.framer.WriteRSTStream(3, http2.ErrCodeCancel))
			c.settle("cancellation")
		}
		c.ask(1+2*i, "slow")
		<-entered
	}
	if got := c.heard(); got != "" {
		t.Errorf("it says %q", got)
	}
	c.ask(101, "waits")
	close(leave)
	for i := range uint32(maxBatches) {
		if i != 1 {
			c.await(1 + 2*i)
		}
	}
	c.await(101)
	c.settle("end")
	if got := c.heard(); strings.Count(got, "grpc-status=0") != maxBatches {
		t.Errorf("it says %q", got)
	}
}

// TestLoop_CallsWithOtherDeadlinesDoNotWait for each other's: the deadline of a batch is that of its most urgent call.
func TestLoop_CallsWithOtherDeadlinesDoNotWait(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	left := make(chan time.Duration, 10)
	f.store.fault = func(ctx context.Context) error {
		until, _ := ctx.Deadline()
		left <- time.Until(until)
		return gone(ctx)
	}
	c := f.raw()
	timeouts := []string{"200m", "210m", "5S", "6S", "700m"}
	c.atOnce(func() {
		for i, timeout := range timeouts {
			id := uint32(1 + 2*i)
			c.headers(id, false, c.call("grpc-timeout", timeout)...)
			c.data(id, true, c.message(fmt.Sprint(i)))
		}
	})
	c.await(1, 3, 5, 7, 9)
	var long int
	for range timeouts {
		if d := <-left; d > 500*time.Millisecond {
			long++
		}
	}
	if long != 3 {
		t.Errorf("%d calls have more than half a second, want 3", long)
	}
	if got := c.heard(); strings.Count(got, "grpc-status=0") != len(timeouts) {
		t.Errorf("it says %q", got)
	}
}
