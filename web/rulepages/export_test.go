package rulepages

// What the form of a rule and its preview are made of.
var (
	RuleOf   = ruleOf
	ValuesOf = valuesOf
	Simulate = simulate
)
