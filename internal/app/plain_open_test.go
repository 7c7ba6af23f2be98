package app

import (
	"bufio"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"sluice/api"
	"sluice/api/plain"
)

// A node takes plain checks up to the largest body, and serves the reasons of handovers from the start.
func TestPlain_OfANodeTakesTheLargestBody(t *testing.T) {
	t.Parallel()
	n := start(t, settings(t))
	n.allowed(plenty + strings.Repeat(" ", api.MaxCheck-len(plenty)))
	metrics := n.text("/metrics") // it hands its own connection over
	if !strings.Contains(metrics, `sluice_http_checks_total{reader="plain"} 1`) {
		t.Error("the largest check is not plain")
	}
	for _, reason := range plain.Reasons() {
		want := " 0"
		if reason == "other_request" {
			want = " 1"
		}
		if series := `sluice_plain_handovers_total{reason="` + reason + `"}`; !strings.Contains(metrics, series+want) {
			t.Errorf("the metrics have no %s%s", series, want)
		}
	}
}

// Plain checks of a node are watched, and their answers close connections while the node drains.
func TestPlain_OfANodeIsWatchedAndDrains(t *testing.T) {
	cfg := settings(t)
	cfg.DrainDelay = 300 * time.Millisecond
	n := start(t, cfg)
	eventually(t, "plain checks are watched", func() bool {
		var stacks strings.Builder
		return pprof.Lookup("goroutine").WriteTo(&stacks, 1) == nil && strings.Contains(stacks.String(), "plain.(*watch).Run")
	})
	c := connect(t, strings.TrimPrefix(n.url, "http://"), "")
	from := bufio.NewReader(c)
	closes := func() bool {
		say(t, c, strings.Replace(plainCheck(plenty), "Host: x", "Host: localhost", 1))
		res, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res.Close
	}
	if closes() {
		t.Error("an answer before a drain closes the connection")
	}
	n.cancel()
	eventually(t, "an answer closes the connection", closes)
}
