package api

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"

	"sluice/api/plain"
	"sluice/internal/access"
	"sluice/rules"
)

// Checks that are answered together have the statuses that they have one after the other, with a deferred one and
// problems among them.
func TestCheckAll_AnswersEachAsCheck(t *testing.T) {
	bodies := []string{`{"user":"a"}`, `{"user":"a","payload":"later"}`, `{"user":"a"}`, `{"user":`, `{"user":"b"}`,
		`{"weight":-1}`, `{"user":"c","payload":"now"}`, `{"key":"k","limit":1,"window_ms":60000}`,
		`{"key":"k","limit":1,"window_ms":60000}`}
	var together, apart []string
	for _, all := range []bool{true, false} {
		f := newFixture(t, []rules.Rule{deferringRule("r", 1)}, withQueue(t, nil))
		call, client := access.Call{Host: "localhost"}, &net.TCPAddr{}
		asks := make([]plain.Ask, 0, len(bodies))
		for _, body := range bodies {
			asks = append(asks, plain.Ask{Call: call, Client: client, Body: []byte(body)})
		}
		if all {
			f.server.CheckAll(t.Context(), asks[:1]) // spends a's unit before the others, whose order is free
			f.server.CheckAll(t.Context(), asks[1:])
		}
		for i := range asks {
			a := &asks[i]
			if !all {
				a.Out, a.Problem = f.server.Check(t.Context(), call, client, nil, a.Body, nil)
			}
			var said struct {
				Allowed bool `json:"allowed"`
				Status  int  `json:"status"`
			}
			if err := json.Unmarshal(a.Out, &said); err != nil {
				t.Fatalf("%s: %v", a.Out, err)
			}
			line := fmt.Sprint(bodies[i], " ", said.Allowed, said.Status, a.Problem != nil)
			if all {
				together = append(together, line)
			} else {
				apart = append(apart, line)
			}
		}
	}
	for i := range apart {
		if together[i] != apart[i] {
			t.Errorf("together: %s; apart: %s", together[i], apart[i])
		}
	}
}
