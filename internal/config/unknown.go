package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice/rules/field"
)

const (
	// ownPrefix begins every environment variable that only Sluice reads.
	ownPrefix = "SLUICE_"
	// maxUnknown is the largest number of unknown variables that are reported.
	maxUnknown = 20
)

// serviceLink matches the variables that Kubernetes sets for a service whose name begins with sluice.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)$`)

// Unknown returns a sentence for each environment variable that begins with SLUICE_ and that no command reads. It has
// the variable's name and the setting with a similar name, never a value.
func Unknown(environ []string) []string {
	var known, named, unknown []string
	for _, s := range Settings(Serve{}, Client{}) {
		known = append(known, s.Env)
		if own, ok := strings.CutPrefix(s.Env, ownPrefix); ok {
			named = append(named, own)
		}
	}
	inKubernetes := slices.ContainsFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "KUBERNETES_SERVICE_HOST=")
	})
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		link := inKubernetes && serviceLink.MatchString(name)
		if strings.HasPrefix(name, ownPrefix) && !slices.Contains(known, name) && !link {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	unknown = unknown[:min(len(unknown), maxUnknown)]
	for i, name := range unknown {
		unknown[i] = name + " is not a setting and has no effect"
		if near := field.Nearest(strings.TrimPrefix(name, ownPrefix), named); near != "" {
			unknown[i] += fmt.Sprintf("; did you mean %s?", ownPrefix+near)
		}
	}
	return unknown
}
