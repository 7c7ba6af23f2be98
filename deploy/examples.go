package deploy

import "embed"

// Recipes are the files of rules in recipes.
//
//go:embed recipes/*.yaml
var Recipes embed.FS
