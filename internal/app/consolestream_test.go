package app

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestConsole_StreamsEndInGoodOrderWhenTheNodeDrains: a live page must not hold up
// a node that stops, and is not cut off either; its browser goes to another node.
func TestConsole_StreamsEndInGoodOrderWhenTheNodeDrains(t *testing.T) {
	t.Parallel()
	n := start(t, withConsole(t))
	p, _ := admitted(t, n)
	var streams []*bufio.Reader
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/console/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		res, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		body := bufio.NewReader(res.Body)
		if line, err := body.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
			t.Fatalf("the stream begins with %q, %v", line, err)
		}
		streams = append(streams, body)
	}
	n.stop()
	for _, body := range streams {
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Errorf("the stream was cut off: %v", err)
		}
	}
	if strings.Contains(n.log.String(), "drain timeout passed") {
		t.Error("streams held up the node until its deadline")
	}
}
