package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// httpWire is a keep-alive connection of HTTP/1.1 with one check at a time.
type httpWire struct {
	requests [][]byte // sent in turn, by the number of the check
	busy     bool
	now      answer
}

func (w *httpWire) begin(out []byte) []byte { return out }

func (w *httpWire) room() bool { return !w.busy }

func (w *httpWire) request(out []byte, a *answer) []byte {
	w.busy, w.now = true, *a
	return append(out, w.requests[a.n%len(w.requests)]...)
}

func (w *httpWire) open(lost func(*answer)) {
	if w.busy {
		lost(&w.now)
	}
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("Content-Length: ")
	statusOK      = []byte("HTTP/1.1 200 ")
)

func (w *httpWire) read(in, out []byte, got func(*answer)) (int, []byte, error) {
	end := bytes.Index(in, headEnd)
	if end < 0 {
		return 0, out, nil
	}
	head, rest := in[:end+2], in[end+len(headEnd):]
	_, length, ok := bytes.Cut(head, contentLength)
	if !ok {
		return 0, out, fmt.Errorf("an answer without a length: %q", head)
	}
	length, _, _ = bytes.Cut(length, []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	if err != nil {
		return 0, out, err
	}
	if len(rest) < n {
		return 0, out, nil
	}
	if !w.busy {
		return 0, out, fmt.Errorf("an answer without a question: %q", head)
	}
	w.now.verdict, w.now.allowed, w.now.mode = failed, false, ""
	if bytes.HasPrefix(head, statusOK) {
		judge(&w.now, rest[:n])
	}
	w.busy = false
	got(&w.now)
	return end + len(headEnd) + n, out, nil
}

var (
	jsonAllowed    = []byte(`{"allowed":true,`)
	jsonOverloaded = []byte(`"overloaded":true`)
	jsonDegraded   = []byte(`"degraded":"`)
)

// judge reads the body of a check's answer. It only looks for members, because decoding would cost as much as the node.
func judge(a *answer, body []byte) {
	a.verdict, a.allowed = decided, bytes.HasPrefix(body, jsonAllowed)
	if _, mode, ok := bytes.Cut(body, jsonDegraded); ok {
		a.verdict, a.mode = byFailMode, failMode(mode)
	} else if bytes.Contains(body, jsonOverloaded) {
		a.verdict = overloaded
	}
}

// failModes are the fail modes of rules.
var failModes = []string{"open", "closed", "local"}

// failMode returns the fail mode at the beginning of text, "" if it is none.
func failMode(text []byte) string {
	for _, mode := range failModes {
		if bytes.HasPrefix(text, []byte(mode)) {
			return mode
		}
	}
	return ""
}

// plainChecks are checks that the node reads without net/http, encoded in advance.
func plainChecks(addr string, bodies []string) [][]byte {
	out := make([][]byte, len(bodies))
	for i, body := range bodies {
		out[i] = fmt.Appendf(nil, "POST /ratelimit/check HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", addr, len(body), body)
	}
	return out
}
