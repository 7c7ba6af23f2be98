package view

import (
	"net/url"
	"strings"

	"sluice/internal/attention"
	"sluice/rules"
	"sluice/rules/chars"
)

// Remarks are findings about unusual denials, with the actions that people can take.
type Remarks struct {
	List []Remark
	// Refusal says why nothing can be changed, "" if changes are possible. With a Refusal, Primary is the address of
	// the console where changes are possible, "" if there is none.
	Refusal, Primary string
}

// Remark is a finding with the addresses of actions against it, "" for an impossible action.
type Remark struct {
	attention.Finding
	Block, Raise, RollBack, Explain string
}

// raiseTimes is the factor by which the offered form raises the limit of a rule, and raiseFor how long the raise lasts.
const raiseTimes, raiseFor = 2, "1h"

// BlockURL is the form that blocks a key of a rule, filled in.
func BlockURL(r *rules.Rule, key string) string { return newOverride(r, key, "kind", "blocked") }

// OverrideURL is the form for an override of a key of a rule.
func OverrideURL(r *rules.Rule, key string) string { return newOverride(r, key) }

// RaiseURL is the form that raises the limit of a key of a rule for an hour, filled in.
func RaiseURL(r *rules.Rule, key string) string {
	return newOverride(r, key, "limit", Digits(max(1, r.Limit)*raiseTimes), "for", raiseFor)
}

func newOverride(r *rules.Rule, key string, rest ...string) string {
	q := url.Values{"key": {key}}
	for i := 0; i < len(rest); i += 2 {
		q.Set(rest[i], rest[i+1])
	}
	return RulePath(r.ID) + "/overrides/new?" + q.Encode()
}

// remarkIcon is the icon of a kind of finding.
func remarkIcon(r *Remark) string {
	switch {
	case r.Outage != nil:
		return "shield-alert"
	case r.Rise != nil:
		return "pencil"
	}
	return "flame"
}

// RiseEvidence has the shares before and after an edit, and what it changed.
func RiseEvidence(r *attention.Rise) string {
	text := Count(r.Now.Denied) + " of " + Plural(r.Now.Requests, "request") + " denied " + r.When()
	if r.Times() > 0 {
		text += ", " + Percent(r.Now.Denied, r.Now.Requests) + "; before the edit " +
			Percent(r.Before.Denied, r.Before.Requests)
	}
	text += ". Changed: " + chars.Shown(r.What()) + "."
	if r.Why != "" {
		text += " Reason: " + chars.Shown(r.Why)
	}
	return text
}

// OutageEffect says how many rules do what during an outage, as in "3 rules let everything pass and 1 refuses
// everything".
func OutageEffect(o *attention.Outage) string {
	var parts []string
	for _, of := range []struct {
		n         int
		one, many string
	}{{o.Open, "lets everything pass", "let everything pass"}, {o.Closed, "refuses everything", "refuse everything"},
		{o.Local, "enforces each node's share", "enforce each node's share"}} {
		words := of.many
		switch of.n {
		case 0:
			continue
		case 1:
			words = of.one
		}
		if parts == nil {
			parts = append(parts, Plural(int64(of.n), "rule")+" "+words)
		} else {
			parts = append(parts, Count(int64(of.n))+" "+words)
		}
	}
	switch n := len(parts); n {
	case 0:
		return "Fail modes decide"
	case 1:
		return parts[0]
	default:
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
}

// outageEvidence says where an outage is, and what it denied.
func outageEvidence(o *attention.Outage) string {
	var where []string
	if o.Down > 0 && o.Down < o.Servers {
		where = append(where, Count(int64(o.Down))+" of "+Plural(int64(o.Servers), "Redis server")+
			" is down, and only its keys are concerned.")
	}
	if o.On > 0 && o.On < o.Nodes {
		where = append(where, "Only "+Count(int64(o.On))+" of "+Plural(int64(o.Nodes), "node")+" cannot reach it.")
	}
	where = append(where, "Fail modes denied "+Plural(o.Denied, "request")+" in the last minute.")
	return strings.Join(where, " ")
}
