package web

import (
	"context"

	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
)

// RuleWriter changes single rules. ifVersion is the version the caller knows, 0
// for any. Errors wrap rules.ErrNotFound, ErrNameTaken, ErrStale or
// ErrUnavailable, or are a *rules.ValidationError.
type RuleWriter interface {
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
	CreateRule(ctx context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error)
	UpdateRule(ctx context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error)
	DeleteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
}

// RuleBulk edits many rules, each as it was seen or not at all. Errors wrap
// ErrUnavailable.
type RuleBulk interface {
	EditRules(ctx context.Context, actor rules.Actor, seen []rules.Seen, edit func(*rules.Rule)) (rules.BulkEdited, error)
}

// RuleHistory tells the versions of a rule before a version (0: all), newest
// first. Errors as in RuleWriter.
type RuleHistory interface {
	RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error)
}

// RecentDenials are sampled denials of all nodes, newest first.
type RecentDenials interface {
	Denials(ctx context.Context, f fleet.Filter, n int) ([]fleet.Denial, error)
}

// Header is one header of an answer.
type Header struct{ Name, Value string }

// HeadersOf gives what a client is told about one decision of one limit, at a
// time in ms since the epoch.
type HeadersOf func(rule string, l limiter.Limit, d limiter.Decision, at int64) []Header
