package playbook

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// send sends one request. After an edit of rules or pools it waits until the set is in force,
// also on a slow machine.
func (w *World) send(r *request) (status int, body string, err error) {
	edit := r.edits()
	var before int64
	if edit {
		if before, err = w.version(); err != nil {
			return 0, "", err
		}
	}
	status, body, err = w.do(r)
	if err != nil || !edit || status >= http.StatusMultipleChoices {
		return status, body, err
	}
	return status, body, w.await(before)
}

// edits reports whether the request changes the set if it succeeds.
func (r *request) edits() bool {
	about := strings.HasPrefix(r.path, "/ratelimit/rules") || strings.HasPrefix(r.path, "/ratelimit/pools")
	return about && r.method != http.MethodGet && !strings.Contains(r.path, "dry_run") &&
		!strings.Contains(r.path, "/overrides") && !strings.HasSuffix(r.path, "/load")
}

func (w *World) do(r *request) (int, string, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, w.url+w.captured.fill(r.path),
		strings.NewReader(w.captured.fill(r.body)))
	if err != nil {
		return 0, "", err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if !strings.HasPrefix(r.path, "/ratelimit/forward/") { // where Authorization is the client's
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	for i, name := range r.headerNames {
		req.Header.Set(name, w.captured.fill(r.headerLines[i]))
	}
	res, err := w.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// version returns the version of the set in force.
func (w *World) version() (int64, error) {
	status, body, err := w.do(&request{method: http.MethodGet, path: "/readyz"})
	if err != nil {
		return 0, err
	}
	var ready struct {
		Rules struct {
			Version int64 `json:"version"`
		} `json:"rules"`
	}
	if err := json.Unmarshal([]byte(body), &ready); err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("the server is not ready: %d %s", status, body)
	}
	return ready.Rules.Version, nil
}

// await polls until a newer set is in force. Usually it is in force when the edit returns, except
// on a very slow machine.
func (w *World) await(before int64) error {
	limit, tick := time.NewTimer(patience), time.NewTicker(10*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for {
		v, err := w.version()
		if err != nil || v > before {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("the edit is not in force after %s: still version %d", patience, before)
		}
	}
}
