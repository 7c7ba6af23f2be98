package words

import (
	"strings"

	"sluice/rules"
)

// counted names what a rule with a descriptor counts by: "user and file"; "" if it has one bucket.
func counted(r *rules.Rule) string { return list(r.Varying()) }

// described is allowance for a rule with a descriptor.
func described(r *rules.Rule) string {
	requests := "requests that Envoy describes as " + r.Descriptor.String()
	if r.Unlimited {
		return "Requests" + strings.TrimPrefix(requests, "requests") + " are not limited"
	}
	who := "All clients together"
	switch keys := r.Varying(); {
	case len(keys) == 1:
		who = "Each " + keys[0]
	case len(keys) > 1:
		who = "Each combination of " + list(keys)
	}
	count := r.AmountWords(r.Limit)
	switch {
	case r.Traits().Slots:
		return who + " may have " + count + " " + requests + " in progress at a time"
	case r.Noun() != "":
		return who + " may spend " + count + " per " + period(r) + " on " + requests + burst(r)
	case r.Limit == 1:
		requests = strings.Replace(requests, "requests", "request", 1)
	}
	return who + " may send " + count + " " + strings.Replace(requests, " that", " per "+period(r)+" that", 1) + burst(r)
}

// envoy are sentences about what only a rule with a descriptor has.
func envoy(r *rules.Rule) []string {
	var s []string
	if shared := r.Sharing(); len(shared) > 0 {
		s = append(s, "All values of "+list(shared)+" that fit the pattern share one limit.")
	}
	if r.Quota {
		s = append(s, "As a quota, it denies a call only if all quotas of the call are used up.")
	}
	if r.Addend == rules.AddendCharge {
		s = append(s, "An amount that Envoy sends is counted in full, even if it does not fit.")
	}
	if len(r.Replaces) > 0 {
		s = append(s, "In a call to which it applies, it replaces "+list(r.Replaces)+".")
	}
	if len(r.Metadata) > 0 {
		s = append(s, "Envoy receives its metadata with requests that pass.")
	}
	return s
}
