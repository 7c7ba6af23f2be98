package view

// Template is a rule from the recipes to begin with.
type Template struct {
	// Rule is the name of the rule, File the file of its recipe.
	Rule, File string
	// Title says what it limits, About how.
	Title, About, Icon string
}

// Templates are offered where there are no rules yet.
var Templates = []Template{
	{"aws-key-rate", "aws.yaml", "Requests of an API key", "10 a second with bursts, and more for a tier", "list-filter"},
	{"aws-key-quota", "aws.yaml", "A monthly quota", "10,000 requests of an API key in each calendar month", "chart-line"},
	{"payments-per-user", "payments-and-search.yaml", "Costly requests",
		"5 a second for each user; none while they cannot be counted", "shield-alert"},
	{"login-of-address", "login.yaml", "Attempts to sign in",
		"100 an hour from an address that no device or challenge vouches for", "users"},
	{"stripe-at-once", "stripe.yaml", "Requests at once", "100 of an API key at the same time", "droplets"},
	{"llm-tokens-per-minute", "llm-gateway.yaml", "Tokens of a language model",
		"40,000 a minute for each API key and model, as many as a request says", "flame"},
}
