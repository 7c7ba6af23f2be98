package envoy

import (
	"time"

	"golang.org/x/net/http2"
)

// Reasons why a connection was closed: its client kept it busy with frames that make no calls. Values of a metric
// label.
const (
	floodResets        = "resets"        // calls that are canceled before they are complete, and errors of streams
	floodSettings      = "settings"      // changes of settings
	floodPings         = "pings"         // pings
	floodEmpty         = "empty_frames"  // DATA frames without data
	floodContinuations = "continuations" // headers in many frames, or too large
)

// Floods are all values of the label reason of connections that were closed.
func Floods() []string {
	return []string{floodResets, floodSettings, floodPings, floodEmpty, floodContinuations}
}

// Bounds of such frames of a connection: so many at once, and so many per second.
const (
	resetBurst, resetRate       = 1000, 100
	settingsBurst, settingsRate = 100, 10
	emptyBurst, emptyRate       = 100, 10
	// mostContinuations bounds the frames of a header block after the first, which could have 8 of full size.
	mostContinuations = 32
	// mostStrikes is how many pings may come too early.
	mostStrikes = 2
)

// limits is how often the client of a connection has sent such frames.
type limits struct {
	resets, settings, empty leak
	strikes                 struct {
		answered bool      // something was sent since the last ping
		n        int       // pings in a row that came too early
		last     time.Time // when the last ping came
	}
}

// leak is a leaky bucket.
type leak struct {
	level float64
	at    time.Time
}

// full adds one. It reports whether that is above the burst.
func (l *leak) full(now time.Time, burst, perSecond float64) bool {
	l.level = max(0, l.level-now.Sub(l.at).Seconds()*perSecond) + 1
	l.at = now
	return l.level > burst
}

// flood closes the connection.
func (c *h2conn) flood(reason string) {
	if c.closing {
		return
	}
	c.loop.server.deps.Observe.CountFlood(reason)
	why := reason
	if reason == floodPings {
		why = "too_many_pings" // the words that clients know
	}
	c.fail(http2.ErrCodeEnhanceYourCalm, why)
}

// onPing answers a ping. Like grpc-go, it counts pings that arrive earlier than minPing after the previous one, if
// nothing was sent in between.
func (c *h2conn) onPing(f *http2.PingFrame) {
	if f.IsAck() {
		if f.Data == drainPing {
			c.drained()
		}
		return
	}
	c.out = appendPing(c.out, http2.FlagPingAck, f.Data)
	s := &c.strikes
	switch {
	case s.answered:
		s.n, s.answered = 0, false
	case c.now.Sub(s.last) < minPing:
		s.n++
	}
	s.last = c.now
	if s.n > mostStrikes {
		c.flood(floodPings)
	}
}

// onSettings follows the settings of the client, and acknowledges them, which grpc-go does if it gets the connection.
func (c *h2conn) onSettings(f *http2.SettingsFrame) {
	if f.IsAck() {
		return
	}
	if c.settings.full(c.now, settingsBurst, settingsRate) {
		c.flood(floodSettings)
		return
	}
	initial := c.initial
	err := f.ForeachSetting(func(s http2.Setting) error {
		if s.ID == http2.SettingInitialWindowSize { // the least of the others is kept anyway
			initial = int64(s.Val)
		}
		return s.Valid()
	})
	if err == nil {
		err = c.setInitial(initial)
	}
	if err != nil {
		c.invalidFrame(err, http2.FrameSettings)
		return
	}
	if c.acks++; c.stage == stageFirst {
		return
	}
	c.acks = 0
	c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.widened = true
}

// setInitial changes the window of new streams, and of the open ones.
func (c *h2conn) setInitial(n int64) error {
	more := n - c.initial
	c.initial = n
	for _, st := range c.streams {
		if !st.send.add(more) {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	}
	return nil
}
