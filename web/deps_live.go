package web

import (
	"context"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/view"
)

// Live is what the pages of one rule, its overrides, pools and hot keys need.
// Every field must be given.
type Live struct {
	// Turns goes between the versions of a rule, Figures tells what rules decide.
	Turns   RuleTurns
	Figures RuleFigures
	// Overrides and OverrideWriter keep exceptions from rules.
	Overrides      OverrideReader
	OverrideWriter OverrideWriter
	// Pools and PoolWriter keep pools; PoolState asks what one holds now, spending
	// nothing.
	Pools      PoolReader
	PoolWriter PoolWriter
	PoolState  func(ctx context.Context, p *rules.CompiledPool) PoolState
	// Watching: this node looks for hot keys.
	Watching bool
}

func (l *Live) whole() bool {
	return l.Turns != nil && l.Figures != nil && l.Overrides != nil && l.OverrideWriter != nil &&
		l.Pools != nil && l.PoolWriter != nil && l.PoolState != nil
}

// RuleTurns makes an earlier version of a rule, or what it has on trial, the
// present one. ifVersion is the version that the page showed. Errors are those
// of RuleWriter.
type RuleTurns interface {
	RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule, error)
	PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error)
}

// RuleFigures tells what single rules decided.
type RuleFigures interface {
	Rule(ctx context.Context, rule string, span time.Duration) ([]fleet.Point, error)
	// Trial adds up what a trial saw in several versions of a rule.
	Trial(ctx context.Context, rule int64, versions []int64) (fleet.TrialCounts, error)
	TopDenied(ctx context.Context, rule string, n int) ([]fleet.KeyCount, error)
}

// OverrideReader finds overrides. Errors are those of RuleWriter.
type OverrideReader interface {
	ListOverrides(ctx context.Context, q rules.OverrideQuery) (rules.OverridePage, error)
	GetOverride(ctx context.Context, ruleID, id int64) (rules.Override, error)
}

// OverrideWriter changes overrides. opt are the settings by which addresses are
// counted. Errors may also wrap rules.ErrOverrideExists.
type OverrideWriter interface {
	CreateOverride(ctx context.Context, actor rules.Actor, o rules.Override, opt rules.Options) (rules.Override, error)
	UpdateOverride(ctx context.Context, actor rules.Actor, o rules.Override, ifVersion int64, opt rules.Options) (rules.Override, error)
	DeleteOverride(ctx context.Context, actor rules.Actor, ruleID, id, ifVersion int64) error
	ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport, opt rules.Options) (rules.OverrideImported, error)
}

// PoolState is what a pool holds at a moment.
type PoolState = view.PoolState

// PoolReader finds pools.
type PoolReader interface {
	ListPools(ctx context.Context) ([]rules.Pool, error)
	GetPool(ctx context.Context, name string) (rules.Pool, error)
}

// PoolWriter changes pools. Deleting one that rules name is rules.ErrPoolUsed.
type PoolWriter interface {
	CreatePool(ctx context.Context, actor rules.Actor, p rules.Pool) (rules.Pool, error)
	UpdatePool(ctx context.Context, actor rules.Actor, p rules.Pool, ifVersion int64) (rules.Pool, error)
	DeletePool(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error
}
