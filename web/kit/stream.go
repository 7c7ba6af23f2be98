package kit

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/web/view"
)

// Bounds of the streams of live data.
const (
	// MaxStreams is how many streams a node serves at once. Pages beyond that poll every few seconds (live.js).
	MaxStreams = 256
	// fullRetry is after how many seconds a page should request a stream again.
	fullRetry = "15"
	// beat is the time between two messages.
	beat = time.Second
	// checkEvery is after how many messages a stream checks its session.
	checkEvery = 10
	// wholeEvery is the number of messages after which all parts are sent again, in case a page missed a message.
	wholeEvery = 30
	// unchecked is how many session checks in a row may fail with an error.
	unchecked = 6
	// writeWait is the longest time for a browser to read a message.
	writeWait = 5 * time.Second
)

// Feed returns the live parts of a page each time it is called. It can omit parts that did not change since the last
// call.
type Feed func() templ.Component

// Events serves the stream of live data of a page. It ends with the session and when the node drains. A request that
// does not ask for a stream, or has the parameter once, gets one message as a part of a page.
//
// Every message also has the number of active alerts and the warnings about this node.
func (v *Visit) Events(parts func(*Visit) Feed) error {
	k := v.kit
	feed := func(v *Visit) Feed {
		next := parts(v)
		return func() templ.Component {
			node := k.Node()
			return templ.Join(next(), view.BellParts(k.bell()), view.BannerParts(v.nodeBanners(&node)))
		}
	}
	if !v.streaming() || v.QueryParams().Has("once") {
		return v.Page(http.StatusOK, feed(v)())
	}
	if k.Streams.Add(1) > MaxStreams {
		k.Streams.Add(-1)
		v.Response().Header().Set("Retry-After", fullRetry)
		return v.String(http.StatusServiceUnavailable,
			"Too many live pages on this node. Add the parameter once to get the current figures.\n")
	}
	defer k.Streams.Add(-1)
	v.beginStream()
	if v.Request().Method == http.MethodHead {
		return nil
	}
	// The timeouts of the server are for requests that end.
	_ = http.NewResponseController(v.Response()).SetReadDeadline(time.Time{})
	if err := v.stream(feed); err != nil && v.Request().Context().Err() == nil {
		k.Logger.Debug("a stream of the console ended", "error", err)
	}
	return nil
}

// streaming reports whether a script asks for a stream.
func (v *Visit) streaming() bool {
	return strings.Contains(v.Request().Header.Get("Accept"), "text/event-stream")
}

func (v *Visit) beginStream() {
	h := v.Response().Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // proxies pass messages on at once
	v.Response().WriteHeader(http.StatusOK)
}

// ended is a complete stream for a session that has ended: it says so, and the page stops requesting it. A redirect
// would be followed, and the page would try again at once.
func (v *Visit) ended() error {
	v.beginStream()
	if v.Request().Method == http.MethodHead {
		return nil
	}
	return v.write(sessionEnded)
}

// sessionEnded is the last message of a stream whose session has ended.
const sessionEnded = "event: ended\ndata: session\n\n"

// errStreamEnds ends a stream without an error.
var errStreamEnds = errors.New("stream ends")

func (v *Visit) stream(feed func(*Visit) Feed) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	missed, next := 0, feed(v)
	var sent map[string]bool
	for n := 1; ; n++ {
		text, parts, err := v.message(next(), sent)
		if err != nil {
			return err
		}
		if sent = parts; n%wholeEvery == 0 {
			sent, next = nil, feed(v)
		}
		if err := v.write(text); err != nil {
			return err
		}
		select {
		case <-v.Request().Context().Done():
			return v.Request().Context().Err()
		case <-tick.C:
		}
		if !v.kit.Node().Ready {
			return errStreamEnds // the browser connects again, to another node
		}
		if n%checkEvery > 0 {
			continue
		}
		switch good, err := v.signedInAgain(); {
		case err != nil:
			if missed++; missed > unchecked {
				return err
			}
		case !good:
			return v.write(sessionEnded)
		default:
			missed = 0
		}
	}
}

// signedInAgain loads the session again, checks its account, and takes over what it may do now: while the rules
// database is unreachable, a page offers no changes.
func (v *Visit) signedInAgain() (bool, error) {
	again := Visit{Context: v.Context, kit: v.kit, route: v.route}
	if err := again.loadSession(); err != nil {
		return false, err
	}
	if again.User.ID != v.User.ID || !again.User.Role.Includes(v.route.Role) {
		return false, nil
	}
	v.Ctx, v.User, v.Offline, v.DatabaseDown = again.Ctx, again.User, again.Offline, again.DatabaseDown
	return true, nil
}

// nothingNew is a message without parts: the data is up to date.
const nothingNew = "data:\n\n"

// endOfPart ends each part in a message.
const endOfPart = "</hx-partial>"

// lineEnds turns every end of a line of a stream, CR LF, LF or CR, into LF. A remaining CR would let a text on the page
// begin a separate event.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// message renders parts as one message, without the parts in sent, which the page already shows. It also returns the
// set of all parts.
func (v *Visit) message(parts templ.Component, sent map[string]bool) (text string, all map[string]bool, err error) {
	var buf bytes.Buffer
	if err := parts.Render(v.Ctx, &buf); err != nil {
		return "", nil, err
	}
	all = map[string]bool{}
	var out strings.Builder
	for part := range strings.SplitAfterSeq(buf.String(), endOfPart) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if all[part] = true; sent[part] {
			continue
		}
		for line := range strings.SplitSeq(lineEnds.Replace(part), "\n") {
			out.WriteString("data: ")
			out.WriteString(line)
			out.WriteByte('\n')
		}
	}
	if out.Len() == 0 {
		return nothingNew, all, nil
	}
	return out.String() + "\n", all, nil
}

// write sends text of a stream at once.
func (v *Visit) write(text string) error {
	c := http.NewResponseController(v.Response())
	_ = c.SetWriteDeadline(time.Now().Add(writeWait)) //nolint:forbidigo // sockets go by the machine's clock
	if _, err := v.Response().Write([]byte(text)); err != nil {
		return err
	}
	return c.Flush()
}
