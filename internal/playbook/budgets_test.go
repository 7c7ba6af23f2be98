package playbook

import "testing"

const budgets = "../../docs/budgets.md"

func TestBudgets_ThePageIsTrue(t *testing.T) { Page(t, budgets) }

func TestBudgets_ThePageIsTrueOnRedis(t *testing.T) { PageOnRedis(t, budgets) }
