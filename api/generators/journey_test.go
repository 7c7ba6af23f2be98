package generators

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// object is a JSON object as the proxy reads it. Its numbers are json.Number, so that none changes on the way.
type object = map[string]any

// call is a request of a program and the answer to it. Bodies that are not JSON objects are nil.
type call struct {
	operation string // method and path pattern, such as PATCH /ratelimit/rules/{id}
	header    http.Header
	asked     object
	status    int
	answer    object
}

// proxy stands between a program and a node. It adds what a newer node may send, records every call, and lets lie
// change an answer.
type proxy struct {
	*httptest.Server
	lie func(call)

	mu    sync.Mutex
	calls []call
}

var ruleID = regexp.MustCompile(`/rules/\d+`)

func newProxy(t *testing.T, node string, lie func(call)) *proxy {
	t.Helper()
	target, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{lie: lie}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding") // the proxy reads the answers
		},
		ModifyResponse: p.answered,
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		reverse.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// answered changes an answer of the node and records the call.
func (p *proxy) answered(r *http.Response) error {
	asked, err := r.Request.GetBody()
	if err != nil {
		return err
	}
	c := call{
		operation: r.Request.Method + " " + ruleID.ReplaceAllString(r.Request.URL.Path, "/rules/{id}"),
		header:    r.Request.Header,
		asked:     read(asked),
		status:    r.StatusCode,
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if c.answer = read(bytes.NewReader(body)); c.answer != nil {
		p.lie(c)
		if body, err = json.Marshal(withUnknown(c.answer)); err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	r.Header.Set("Sluice-Added-Later", "1")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	return nil
}

func read(r io.Reader) object {
	var o object
	d := json.NewDecoder(r)
	d.UseNumber()
	if d.Decode(&o) != nil {
		return nil
	}
	return o
}

// withUnknown returns v with one more member in each of its objects, and a word that nobody knows as degraded. No
// answer of the journey has an object whose member names are data.
func withUnknown(v any) any {
	switch v := v.(type) {
	case object:
		more := object{"added_later": object{"x": 1}}
		for name, member := range v {
			more[name] = withUnknown(member)
			if name == "degraded" {
				more[name] = "added_later"
			}
		}
		return more
	case []any:
		more := make([]any, len(v))
		for i, element := range v {
			more[i] = withUnknown(element)
		}
		return more
	default:
		return v
	}
}

// step is one call of the journey. Its number is that of the list in doc.go.
type step struct {
	number    int
	operation string
	status    int
	holds     func(c call, name string) bool // nil if the status says enough
}

const (
	create  = "POST /ratelimit/rules"
	list    = "GET /ratelimit/rules"
	patch   = "PATCH /ratelimit/rules/{id}"
	check   = "POST /ratelimit/check"
	batch   = "POST /ratelimit/check/batch"
	reserve = "POST /ratelimit/reserve"
	settle  = "POST /ratelimit/settle"
	explain = "POST /ratelimit/explain"
)

func journey() []step {
	named := func(suffix string) func(call, string) bool {
		return func(c call, name string) bool { return c.answer["name"] == name+suffix }
	}
	byUser := func(allowed bool) func(call, string) bool {
		return func(c call, name string) bool { return c.asked["user"] == name && c.answer["allowed"] == allowed }
	}
	direct := func(allowed bool) func(call, string) bool {
		return func(c call, name string) bool { return c.asked["key"] == name && c.answer["allowed"] == allowed }
	}
	has := func(member string) func(call, string) bool {
		return func(c call, _ string) bool { return c.answer[member] != nil }
	}
	return []step{
		{1, create, 201, named("-shadow")},
		{2, patch, 200, func(c call, _ string) bool {
			return onlyLimit(c) && c.header.Get("If-Match") != "" && fmt.Sprint(c.answer["limit"]) == "5" &&
				c.answer["mode"] == "shadow" && c.answer["fail_mode"] == "closed" && c.answer["is_active"] == false
		}},
		{3, patch, 412, func(c call, _ string) bool { return onlyLimit(c) && c.answer["type"] == "/problems/stale" }},
		{4, create, 201, named("-users")},
		{5, check, 200, byUser(true)},
		{5, check, 200, byUser(true)},
		{5, check, 200, byUser(false)},
		{6, check, 200, direct(true)},
		{6, check, 200, direct(false)},
		{7, check, 200, func(c call, _ string) bool { return len(elements(c.asked, "limits")) == 2 }},
		{8, batch, 200, func(c call, _ string) bool { return len(elements(c.asked, "checks")) == 2 }},
		{9, reserve, 200, has("reservation")},
		{9, settle, 200, func(c call, _ string) bool { return fmt.Sprint(c.answer["refunded"]) == "1" }},
		{10, explain, 200, func(c call, name string) bool { return c.asked["user"] == name }},
		{11, list, 200, func(c call, _ string) bool { return len(elements(c.answer, "rules")) == 2 }},
		{12, create, 422, has("errors")},
	}
}

func onlyLimit(c call) bool {
	return slices.Equal(slices.Collect(maps.Keys(c.asked)), []string{"limit"})
}

func elements(o object, member string) []any {
	list, _ := o[member].([]any)
	return list
}

// lies are answers that are not as the journey says. A program that reads its answers notices each of them.
func lies() map[string]func(call) {
	return map[string]func(call){
		"the patched rule denies": func(c call) {
			if c.operation == patch && c.status == http.StatusOK {
				c.answer["mode"] = "enforce"
			}
		},
		"a denial has another rule": func(c call) {
			if c.operation == check && c.asked["user"] != nil && c.answer["allowed"] == false {
				c.answer["rule"] = "another"
			}
		},
		"a denial may be repeated at once": func(c call) {
			if c.operation == check && c.asked["user"] != nil && c.answer["allowed"] == false {
				c.answer["retry_after_ms"] = 0
			}
		},
		"every direct check is allowed": func(c call) {
			if c.operation == check && c.asked["key"] != nil {
				c.answer["allowed"] = true
			}
		},
		"a rule is missing in the list": func(c call) {
			if rules := elements(c.answer, "rules"); c.operation == list && len(rules) > 0 {
				c.answer["rules"] = rules[1:]
			}
		},
		"the error is in another field": func(c call) {
			for _, e := range elements(c.answer, "errors") {
				if e, ok := e.(object); ok && c.operation == create {
					e["field"] = "limit"
				}
			}
		},
	}
}

var played int // for names that no other run has

// play runs a program, which is a command line without URL, TOKEN and NAME: once with the node's answers, and once with
// each lie.
func play(t *testing.T, node, token string, program ...string) {
	t.Helper()
	start := func(lie func(call)) (p *proxy, name string, out []byte, err error) {
		played++
		name = fmt.Sprintf("journey-%03d", played)
		p = newProxy(t, node, lie)
		args := append(slices.Clone(program), p.URL, token, name)
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		out, err = cmd.CombinedOutput()
		p.Close()
		return p, name, out, err
	}
	p, name, out, err := start(func(call) {})
	if err != nil {
		t.Errorf("the program failed: %v\n%s", err, out)
	}
	missing(t, p.calls, name)
	if t.Failed() {
		return
	}
	for what, lie := range lies() {
		if _, _, out, err := start(lie); err == nil {
			t.Errorf("the program does not notice that %s\n%s", what, out)
		}
	}
}

// missing fails the test if the steps of the journey are not the calls, in their order.
func missing(t *testing.T, calls []call, name string) {
	t.Helper()
	var seen strings.Builder
	for _, c := range calls {
		asked, _ := json.Marshal(c.asked)
		fmt.Fprintf(&seen, "%s %s: %d\n", c.operation, asked, c.status)
	}
	for i, s := range journey() {
		if i >= len(calls) {
			t.Errorf("step %d: no %s with status %d, after these calls:\n%s", s.number, s.operation, s.status, seen.String())
			return
		}
		c := calls[i]
		if c.operation != s.operation || c.status != s.status || (s.holds != nil && !s.holds(c, name)) {
			answer, _ := json.Marshal(c.answer)
			t.Errorf("step %d: call %d is not %s with status %d as doc.go has it, but %s: %d %s. All calls:\n%s",
				s.number, i+1, s.operation, s.status, c.operation, c.status, answer, seen.String())
			return
		}
	}
	if more := len(calls) - len(journey()); more > 0 {
		t.Errorf("%d calls more than the journey has:\n%s", more, seen.String())
	}
}
