package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a service without a network, so that tests can run in a bubble of synctest. It allows every check and
// answers with its key, unless a test says otherwise.
type fake struct {
	mu    sync.Mutex
	calls []fakeCall
	// gate, if not nil, is what a call waits for before its answer.
	gate chan struct{}
	// fail, if it returns one, replaces the answer.
	fail func(fakeCall) *failure
}

// failure is a response that is no answer, or the lack of one.
type failure struct {
	status int
	body   string
	size   int64 // that the response claims, if not that of body
	err    error
}

type fakeCall struct {
	path   string
	header http.Header
	bodies []string // one for each check
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c := fakeCall{path: r.URL.Path, header: r.Header, bodies: []string{string(body)}}
	if c.path == batchPath {
		c.bodies = checksOf(body)
	}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	gate, fail := f.gate, f.fail
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if fail != nil {
		if f := fail(c); f != nil && f.err != nil {
			return nil, f.err
		} else if f != nil {
			return f.response(), nil
		}
	}
	var results []string
	for _, b := range c.bodies {
		results = append(results, allowed(b))
	}
	if c.path == batchPath {
		results[0] = `{"results":[` + strings.Join(results, ",") + `]}`
	}
	return (&failure{status: 200, body: results[0]}).response(), nil
}

// seen are the calls so far.
func (f *fake) seen() []fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]fakeCall(nil), f.calls...)
}

func (f *fake) set(gate chan struct{}, fail func(fakeCall) *failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate, f.fail = gate, fail
}

func checksOf(body []byte) []string {
	var batch struct {
		Checks []json.RawMessage `json:"checks"`
	}
	if err := json.Unmarshal(body, &batch); err != nil {
		panic(err)
	}
	var out []string
	for _, c := range batch.Checks {
		out = append(out, string(c))
	}
	return out
}

// allowed is the answer to a check, with its key as that of a limit.
func allowed(body string) string {
	var q struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(body), &q); err != nil {
		panic(err)
	}
	key, _ := json.Marshal(q.Key)
	return fmt.Sprintf(`{"allowed":true,"status":200,"degraded":null,"rule":null,"limits":[{"rule":null,"key":%s,"allowed":true,`+
		`"limit":5,"remaining":4,"reset_ms":1000,"retry_after_ms":0,"mode":"enforce"}],"headers":{}}`, key)
}

func (f *failure) response() *http.Response {
	kind := "application/json"
	if f.status >= 400 {
		kind = "application/problem+json"
	}
	return &http.Response{StatusCode: f.status, Header: http.Header{"Content-Type": {kind}},
		ContentLength: cmp.Or(f.size, int64(len(f.body))), Body: io.NopCloser(strings.NewReader(f.body))}
}

// newFake returns a client of a fake service.
func newFake(t *testing.T, opt Options) (*Client, *fake) {
	t.Helper()
	c, err := New("http://sluice.test", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f := &fake{}
	c.http.Transport = f
	return c, f
}

// direct is a direct check of a key.
func direct(key string) Check {
	return Check{Key: key, Limit: &Limit{Count: 5, WindowMS: 1000}}
}

const long = time.Minute // of virtual time
