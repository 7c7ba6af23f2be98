package web

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/rules"
	"sluice/web/view"
)

// Bounds of the streams of live figures.
const (
	// maxStreams is how many a node serves at once. Pages that come after that
	// ask for their figures every few seconds (live.js).
	maxStreams = 256
	// fullRetry is after how many seconds to ask for a stream again.
	fullRetry = "15"
	// beat is the time between two messages.
	beat = time.Second
	// checkEvery is after how many messages a stream asks whether its session is
	// still good.
	checkEvery = 10
	// unchecked is how many times in a row that may go unanswered.
	unchecked = 6
	// writeWait is how long a browser may take to read a message.
	writeWait = 5 * time.Second
)

// events is the stream of live figures, one a page: of the overview, with the
// parameter rule of one rule, with of=denials of the denials that the other
// parameters choose. It ends with the session and when the node drains. Whoever
// does not ask for a stream, or asks with once, gets one message as a piece of a page.
func (s *Server) events(v *visit) error {
	if !v.streaming() || v.QueryParams().Has("once") {
		return v.page(http.StatusOK, s.liveParts(v))
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		v.Response().Header().Set("Retry-After", fullRetry)
		return v.String(http.StatusServiceUnavailable, "Too many pages are live on this node. Ask with once for the figures of this moment.\n")
	}
	defer s.streams.Add(-1)
	v.beginStream()
	if v.Request().Method == http.MethodHead {
		return nil
	}
	// The time limits of the server are for requests that end.
	_ = http.NewResponseController(v.Response()).SetReadDeadline(time.Time{})
	if err := s.stream(v); err != nil && v.Request().Context().Err() == nil {
		s.log.Debug("a stream of the console ended", "error", err)
	}
	return nil
}

// streaming reports whether a script asks for a stream.
func (v *visit) streaming() bool {
	return strings.Contains(v.Request().Header.Get("Accept"), "text/event-stream")
}

func (v *visit) beginStream() {
	h := v.Response().Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // proxies pass messages on at once
	v.Response().WriteHeader(http.StatusOK)
}

// ended is a whole stream for who is no longer signed in: it says so, and the
// page stops asking. A redirect would be followed, and asked for again at once.
func (v *visit) ended() error {
	v.beginStream()
	if v.Request().Method == http.MethodHead {
		return nil
	}
	return v.write(sessionEnded)
}

// sessionEnded is the last message of a stream whose session has ended.
const sessionEnded = "event: ended\ndata: session\n\n"

// errStreamEnds ends a stream in good order.
var errStreamEnds = errors.New("stream ends")

func (s *Server) stream(v *visit) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	missed, last := 0, ""
	for n := 1; ; n++ {
		text, err := v.message(s.liveParts(v))
		if err != nil {
			return err
		}
		if text == last {
			text = nothingNew
		} else {
			last = text
		}
		if err := v.write(text); err != nil {
			return err
		}
		select {
		case <-v.Request().Context().Done():
			return v.Request().Context().Err()
		case <-tick.C:
		}
		if !s.deps.Node().Ready {
			return errStreamEnds // the browser comes back, to another node
		}
		if n%checkEvery > 0 {
			continue
		}
		switch good, err := v.stillSignedIn(); {
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

// stillSignedIn asks again whose the session is.
func (v *visit) stillSignedIn() (bool, error) {
	again := visit{Context: v.Context, server: v.server, route: v.route}
	if err := again.loadSession(); err != nil {
		return false, err
	}
	return again.user.ID == v.user.ID && again.user.Role.Includes(v.route.Role), nil
}

// nothingNew is a message without a piece of a page: the figures are up to date.
const nothingNew = "data:\n\n"

// message writes a piece of a page as one message.
func (v *visit) message(parts templ.Component) (string, error) {
	var buf bytes.Buffer
	if err := parts.Render(v.ctx, &buf); err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(buf.String()), "\n") {
		out.WriteString("data: ")
		out.WriteString(strings.TrimRight(line, "\r"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.String(), nil
}

// write sends text of a stream at once.
func (v *visit) write(text string) error {
	c := http.NewResponseController(v.Response())
	_ = c.SetWriteDeadline(time.Now().Add(writeWait)) //nolint:forbidigo // sockets go by the machine's clock
	if _, err := v.Response().Write([]byte(text)); err != nil {
		return err
	}
	return c.Flush()
}

// liveParts is what moves on the page that asks.
func (s *Server) liveParts(v *visit) templ.Component {
	if v.QueryParam("of") == "denials" {
		m, err := s.denialsOf(v)
		return view.DenialParts(m, unread(err))
	}
	id, err := strconv.ParseInt(v.QueryParam("rule"), 10, 64)
	if err != nil {
		m := s.liveOverview(v)
		return view.OverviewParts(m)
	}
	m := view.RulePage{}
	if set := s.setNow(); set != nil && set.Get(id) != nil {
		m.Rule = set.Get(id).Rule
	} else {
		m.Rule = rules.Rule{ID: id}
	}
	s.ruleMinute(v, &m)
	return view.RuleParts(m)
}

// ruleMinute fills in the last minute of a rule.
func (s *Server) ruleMinute(v *visit, m *view.RulePage) {
	live := s.deps.Fleet.Live(v.ctx)
	m.Live = live
	for i := range live.Rules {
		if live.Rules[i].Name == m.Rule.Name {
			m.Minute = live.Rules[i].Minute
		}
	}
}
