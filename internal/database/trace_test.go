package database

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/rules"
)

// traced has the operations that ended, each with those that it is in, and with its error if it failed.
type traced struct {
	mu    sync.Mutex
	ended []string
}

type operationKey struct{}

func (r *traced) begin(ctx context.Context, operation string) (context.Context, func(error)) {
	if in, ok := ctx.Value(operationKey{}).(string); ok {
		operation = in + " > " + operation
	}
	return context.WithValue(ctx, operationKey{}, operation), func(err error) {
		if errors.Is(err, rules.ErrNameTaken) {
			operation += ": taken"
		} else if err != nil {
			operation += ": " + err.Error()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, operation)
	}
}

// took returns the operations since the last call.
func (r *traced) took() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.ended = nil }()
	return strings.Join(r.ended, ", ")
}

func TestTrace_NamesChangesAndStatements(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			spans := &traced{}
			d, err := Open(t.Context(), Options{DSN: b.dsn(t), Trace: spans.begin})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			spans.took() // what opening does

			created := mustCreate(t, d, sample("a"))
			got := spans.took()
			for _, want := range []string{"change rules > rows", "change rules > create rules",
				"change rules > create rule_revisions", "change rules > create audit_log"} {
				if !slices.Contains(strings.Split(got, ", "), want) {
					t.Errorf("creating a rule is %s, without %q", got, want)
				}
			}
			if !strings.HasSuffix(got, ", change rules") {
				t.Errorf("creating a rule is %s", got)
			}
			if _, err := d.GetRule(t.Context(), created.ID); err != nil || spans.took() != "query rules" {
				t.Error(err)
			}
			if _, err := d.GetRule(t.Context(), 99); !errors.Is(err, rules.ErrNotFound) {
				t.Error(err)
			}
			if got := spans.took(); got != "query rules" {
				t.Errorf("reading a rule that does not exist is %s", got)
			}
			if _, err := d.CreateRule(t.Context(), ada, sample("a")); !errors.Is(err, rules.ErrNameTaken) {
				t.Error(err)
			}
			if got := spans.took(); !strings.HasSuffix(got, ", change rules: taken") {
				t.Errorf("creating it again is %s", got)
			}
			if _, err := d.LoadRules(t.Context()); err != nil {
				t.Error(err)
			}
			if got := spans.took(); !strings.Contains(got, "rows rules") {
				t.Errorf("loading is %s", got)
			}
		})
	}
}
