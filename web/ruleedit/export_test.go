package ruleedit

// What the form of a rule and its preview are made of.
var (
	RuleOf   = ruleOf
	ValuesOf = valuesOf
	Simulate = simulate
	// ToFormNames moves errors to the fields of the form.
	ToFormNames = toFormNames
)
