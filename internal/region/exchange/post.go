package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	// Path is where a region takes messages.
	Path = "/ratelimit/regions/exchange"
	// mostReason bounds what is shown of a refusal.
	mostReason = 300
)

// Peer is another region.
type Peer struct {
	Name string
	// Addresses are the URLs of its nodes, without a path, at least one.
	Addresses []string
}

// Reply is what a node of another region has answered.
type Reply struct {
	Status int
	Body   []byte
	// Closes: the node closes the connection, as one does that is about to stop.
	Closes bool
}

// Post sends a message of a media type to the URL of a node of another region and returns its answer, up to most
// bytes of
// it. Without a token a client certificate says who sends it.
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
	return Reply{Status: res.StatusCode, Body: text, Closes: res.Close}, nil
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
	if len(reason) > mostReason {
		reason = reason[:mostReason]
	}
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		return &refusedError{fmt.Sprintf("the token or client certificate of this region is refused with status %d: %q",
			r.Status, reason)}
	case r.Status/100 == 4:
		return &refusedError{fmt.Sprintf("refused with status %d: %q", r.Status, reason)}
	}
	return fmt.Errorf("answered with status %d: %q", r.Status, reason)
}

// refusedError says that the node refuses the message, and would refuse it again.
type refusedError struct {
	text string
}

func (e *refusedError) Error() string { return e.text }
