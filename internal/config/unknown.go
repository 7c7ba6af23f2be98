package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	var known, unknown []string
	for _, s := range Settings(Serve{}, Client{}) {
		known = append(known, s.Env)
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
		if near := nearest(name, known); near != "" {
			unknown[i] += fmt.Sprintf("; did you mean %s?", near)
		}
	}
	return unknown
}

// nearest returns the known name that the fewest edits make of name, "" if that changes more than a third of it.
func nearest(name string, known []string) (near string) {
	least := (len(name)-len(ownPrefix))/3 + 1
	for _, k := range known {
		if n := edits(name, k); n < least {
			near, least = k, n
		}
	}
	return near
}

// edits is the number of bytes to insert, delete or replace that make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: from the part of a so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
