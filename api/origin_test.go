package api

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/rules"
)

func TestOrigin_IsThatOfTheBodyElseOfTheTraceparent(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	long := strings.Repeat("a", 5000) // of a client, which must not fail the check
	for _, tt := range []struct {
		path, body, parent string
		want               decide.Origin
	}{
		{checkPath, `{"user":"1"}`, "", decide.Origin{Face: "http"}},
		{checkPath, `{"user":"1","user_agent":"shop/1"}`, parent,
			decide.Origin{Face: "http", UserAgent: "shop/1", TraceID: trace}},
		{checkPath, `{"user":"1","trace_id":"own"}`, parent, decide.Origin{Face: "http", TraceID: "own"}},
		{checkPath, `{"user":"1"}`, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", decide.Origin{Face: "http"}},
		{checkPath, `{"user":"1"}`, parent[:40], decide.Origin{Face: "http"}},
		{checkPath, `{"user":"1"}`, "00-short", decide.Origin{Face: "http"}},
		{checkPath, `{"user":"1","user_agent":"` + long + `"}`, "", decide.Origin{Face: "http", UserAgent: long}},
		{"/ratelimit/check/batch", `{"checks":[{"user":"1","user_agent":"b"}]}`, parent,
			decide.Origin{Face: "http", UserAgent: "b", TraceID: trace}},
		{"/ratelimit/refund", `{"user":"1"}`, parent, decide.Origin{Face: "http", TraceID: trace}},
	} {
		f := newFixture(t, []rules.Rule{perUser("r", 10)})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tt.path, strings.NewReader(tt.body))
		r.Host = f.host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+f.token)
		r.Header.Set("Traceparent", tt.parent)
		w := httptest.NewRecorder()
		f.echo.ServeHTTP(w, r)
		if want := []decide.Origin{tt.want}; w.Code != http.StatusOK || !reflect.DeepEqual(f.seen.origins, want) {
			t.Errorf("%s %.60s: status %d, origins %+v, want %+v", tt.path, tt.body, w.Code, f.seen.origins, want)
		}
		if tt.path != checkPath {
			continue
		}
		f = newFixture(t, []rules.Rule{perUser("r", 10)})
		r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, tt.path, nil)
		r.Host = f.host
		r.Header.Set("Traceparent", tt.parent)
		if status, _, _ := f.direct(r, tt.body); status != http.StatusOK || f.seen.origins[0] != tt.want {
			t.Errorf("read without net/http: status %d, origins %+v", status, f.seen.origins)
		}
	}
}
