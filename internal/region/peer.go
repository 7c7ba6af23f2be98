package region

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxReason bounds what is shown of a refusal, in bytes.
const maxReason = 300

// Peer is another region.
type Peer struct {
	Name string
	// Addresses are the URLs of its nodes, without a path, at least one.
	Addresses []string
}

// Link is how a room of this node sends messages to a peer: to which of its nodes, since when that fails, and the
// signal for the goroutine that sends. Use NewLink. It is safe for concurrent use.
type Link struct {
	Peer

	client *http.Client
	token  func() string
	wake   chan struct{}
	at     atomic.Uint32

	mu    sync.Mutex
	err   error     // of the last message, nil if the peer has accepted it
	since time.Time // when the first message failed after an accepted one
	tried time.Time // when the last message ended
}

// NewLink returns a link that begins with a node of the peer, by number. token returns the credential that goes with a
// message, "" where a client certificate names the sender.
func NewLink(p Peer, client *http.Client, token func() string, node uint32) *Link {
	l := &Link{Peer: p, client: client, token: token, wake: make(chan struct{}, 1)}
	l.at.Store(node)
	return l
}

// Wake makes Awake ready. It does not block.
func (l *Link) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Awake receives after Wake.
func (l *Link) Awake() <-chan struct{} { return l.wake }

// Node returns the number of the node in use, for Post and Leave.
func (l *Link) Node() uint32 { return l.at.Load() }

// Leave makes the next node the one in use, unless node is not in use any more.
func (l *Link) Leave(node uint32) { l.at.CompareAndSwap(node, node+1) }

// URL returns the address of a node.
func (l *Link) URL(node uint32) string { return l.Addresses[int(node)%len(l.Addresses)] }

// Note keeps how a message ended: err is nil if the peer has accepted it.
func (l *Link) Note(err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.err == nil {
		l.since = now
	}
	l.err, l.tried = err, now
}

// Failure returns when the first message failed after an accepted one, when the last one ended, and its error. If the
// last message was accepted, the error is nil and since is zero.
func (l *Link) Failure() (since, tried time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return time.Time{}, l.tried, nil
	}
	return l.since, l.tried, l.err
}

// Reply is the answer of a peer's node.
type Reply struct {
	Status int
	Body   []byte
	// Closes: the node closes the connection, as a node does that is about to stop.
	Closes bool
	// Own: it is a problem document of Sluice, and not the answer of a proxy in between.
	Own bool
}

// Post sends a message of a media type to a node of the peer and returns the answer, up to most bytes of it.
func (l *Link) Post(ctx context.Context, node uint32, media string, body []byte, most int64) (Reply, error) {
	return Post(ctx, l.client, l.URL(node)+Path, media, l.token(), body, most)
}

// Post sends a body of a media type to a node of Sluice and returns the answer, up to most bytes of it. Without a token
// a client certificate names the sender.
func Post(ctx context.Context, client *http.Client, url, media, token string, body []byte, most int64) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	req.Header.Set("Content-Type", media)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return Reply{}, fmt.Errorf("read the answer: %w", err)
	}
	return Reply{Status: res.StatusCode, Body: text, Closes: res.Close, Own: isProblem(res.Header, text)}, nil
}

// isProblem reports whether an answer is a problem document of a type that Sluice has.
func isProblem(h http.Header, body []byte) bool {
	var problem struct {
		Type string `json:"type"`
	}
	return h.Get("Content-Type") == "application/problem+json" && json.Unmarshal(body, &problem) == nil &&
		strings.HasPrefix(problem.Type, "/problems/")
}

// Ask is Post for a message that is accepted with status 200 only, and returns the body of the answer.
func (l *Link) Ask(ctx context.Context, node uint32, media string, body []byte, most int64) ([]byte, error) {
	reply, err := l.Post(ctx, node, media, body, most)
	if err == nil {
		err = reply.Refusal()
	}
	return reply.Body, err
}

// Refusal is the error of an answer with another status than 200, else nil.
func (r *Reply) Refusal() error {
	if r.Status == http.StatusOK {
		return nil
	}
	var problem struct {
		Detail string `json:"detail"`
		Errors []struct {
			Field, Message string
		} `json:"errors"`
	}
	_ = json.Unmarshal(r.Body, &problem) // without a reason the status says enough
	reason := problem.Detail
	if len(problem.Errors) > 0 { // the detail only says that there are some
		reasons := make([]string, len(problem.Errors))
		for i, e := range problem.Errors {
			reasons[i] = e.Field + " " + e.Message
		}
		reason = strings.Join(reasons, "; ")
	}
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		return &refusal{fmt.Sprintf("the token or client certificate of this region is refused with status %d: %q",
			r.Status, reason)}
	case r.Status/100 == 4:
		return &refusal{fmt.Sprintf("refused with status %d: %q", r.Status, reason)}
	}
	return fmt.Errorf("answered with status %d: %q", r.Status, reason)
}

// refusal says that a node refuses a message, and would refuse it again.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

// IsRefusal reports whether an error says that a node refuses a message, and would refuse it again.
func IsRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}
