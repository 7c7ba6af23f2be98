package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/rules"
)

// ending are overrides whose second page fails.
type ending struct {
	OverrideReader
	err   error
	pages int
}

func (e *ending) ListOverrides(context.Context, rules.OverrideQuery) (rules.OverridePage, error) {
	if e.pages++; e.pages > 1 {
		return rules.OverridePage{}, fmt.Errorf("the second page: %w", e.err)
	}
	return rules.OverridePage{Overrides: []rules.Override{{ID: 1, RuleID: 1}}, More: true}, nil
}

// TestExport_AClientThatLeavesIsNoError, unlike a database that fails.
func TestExport_AClientThatLeavesIsNoError(t *testing.T) {
	for err, want := range map[error]bool{context.Canceled: false, errors.New("disk"): true} {
		var lines bytes.Buffer
		f := newFixture(t, []rules.Rule{deferringRule("r", 1)}, func(_ *decide.CheckerOptions, d *Deps) {
			d.Overrides, d.Logger = &ending{OverrideReader: d.Overrides, err: err}, slog.New(slog.NewTextHandler(&lines, nil))
		})
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // the value that net/http documents
					t.Errorf("%v: the answer was not cut short: %v", err, v)
				}
			}()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ratelimit/rules/1/overrides/export", http.NoBody)
			r.Host = f.host
			r.Header.Set("Authorization", "Bearer "+f.token)
			f.echo.ServeHTTP(httptest.NewRecorder(), r) // a server would take up what the handler panics with
		}()
		if got := strings.Contains(lines.String(), "level=ERROR"); got != want {
			t.Errorf("%v: the log is\n%s", err, lines.String())
		}
	}
}
