package main

import (
	"net/http"
	"testing"
	"time"
)

func TestCell_RangesOverTheGaps(t *testing.T) {
	at := func(ms ...int64) (out []time.Time) {
		for _, n := range ms {
			out = append(out, time.UnixMilli(n))
		}
		return out
	}
	for _, tt := range []struct {
		times []time.Time
		waits bool
		want  string
	}{
		{at(0), false, "1"}, {at(0), true, "1 …"}, {at(0, 1010, 2040), false, "3: 1 s"},
		{at(0, 110, 1110, 5110), true, "4: 0.1–4 s …"}, {at(0, 949, 1900), false, "3: 0.9–1 s"},
	} {
		if got := cell(tt.times, tt.waits); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestServer_CountsTheRequestsOfACall(t *testing.T) {
	s := serve()
	defer s.http.Close()
	c, url := s.expect(answer{status: 429, after: "12"})
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/messages", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "12" {
			t.Errorf("got %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
	}
	<-c.first
	if n := len(s.requests(c)); n != 2 {
		t.Errorf("%d requests", n)
	}
}
