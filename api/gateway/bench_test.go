package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             { clear(d.header) }

// One question about one rule, compared with BenchmarkCheckHTTP of package api.
func BenchmarkQuestion(b *testing.B) {
	f := newFixture(b, perUser(1_000_000_000))
	f.handler.deps.Asked = func(string, string) {}
	for _, face := range []string{"forward", "ext_authz"} {
		b.Run(face, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/ratelimit/"+face+"/shop", http.NoBody)
			for name, value := range map[string]string{"Sluice-Token": f.secret, "X-Forwarded-Method": "GET",
				"X-Forwarded-Uri": "/users/17?full=1", "X-Forwarded-Host": "shop.example", "X-Forwarded-For": "203.0.113.7",
				"X-User": "42", "X-Api-Key": "k"} {
				r.Header.Set(name, value)
			}
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				f.handler.ServeHTTP(w, r)
			}
		})
	}
}
