package testenv

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Scrape returns the metrics of a registry in the text format.
func Scrape(t testing.TB, from prometheus.Gatherer) string {
	t.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(from, promhttp.HandlerOpts{}).ServeHTTP(rec,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if rec.Code != http.StatusOK {
		t.Fatal(rec.Body)
	}
	return rec.Body.String()
}

// Served checks that a registry serves lines.
func Served(t testing.TB, from prometheus.Gatherer, lines ...string) {
	t.Helper()
	got := Scrape(t, from)
	for _, line := range lines {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("metrics lack %q", line)
		}
	}
}
