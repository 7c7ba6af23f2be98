package evaluate

import (
	"fmt"
	"strconv"

	"sluice/internal/alerts"
)

// textOf says in a sentence what is on, or over.
func textOf(s *alerts.Subject, state string, d *Details) string {
	on, n := state == alerts.On, d.Numbers
	switch s.Kind {
	case alerts.KindKeyUsage:
		if on {
			return fmt.Sprintf("The key %s has reached %s %% of its limit of the rule %s: %d of %d.", s.Key, s.Level, s.Rule,
				n["used"], n["limit"])
		}
		return fmt.Sprintf("The key %s is below %s %% of its limit of the rule %s again.", s.Key, s.Level, s.Rule)
	case alerts.KindRuleDenials:
		if on {
			return fmt.Sprintf("The rule %s denied %d of %d requests (%d %%) in the last minute.", s.Rule, n["denied"],
				n["requests"], n["denied_percent"])
		}
		return fmt.Sprintf("The rule %s denies fewer requests again.", s.Rule)
	case alerts.KindKeyHot:
		if on {
			return fmt.Sprintf("The key %s of the rule %s is hot: %d requests a second.", s.Key, s.Rule, n["per_second"])
		}
		return fmt.Sprintf("The key %s of the rule %s is no longer hot.", s.Key, s.Rule)
	case alerts.KindFailModeEngaged, alerts.KindFailModeEnded:
		switch {
		case on && d.Cause != "":
			return "Fail modes decide requests, because the counter store cannot: " + d.Cause + "."
		case on:
			return "Fail modes decide requests, because the counter store cannot."
		}
		return "The counter store decides requests again; fail modes no longer do."
	case alerts.KindRuleIdle:
		if on {
			return fmt.Sprintf("The rule %s matched no request for a week.", s.Rule)
		}
		return fmt.Sprintf("The rule %s matches requests again, or was edited.", s.Rule)
	case alerts.KindSetRefused:
		if on {
			return fmt.Sprintf("The stored rules do not compile (version %d). Nodes keep the previous ones.", n["version"])
		}
		return "The stored rules compile again."
	case alerts.KindSetOld:
		if on {
			return fmt.Sprintf("A node decides by rules that the rules database has not confirmed for %d seconds.", n["age_s"])
		}
		return "The rules database confirms the rules of every node again."
	case alerts.KindRegionCutOff:
		if on {
			return fmt.Sprintf("The regions %s are cut off from each other.", s.Level)
		}
		return fmt.Sprintf("The regions %s hear each other again.", s.Level)
	case alerts.KindRegionSetOld:
		if on {
			return fmt.Sprintf("The region %s has lacked edits of the rules for five minutes (version %d, elsewhere %d).",
				s.Level, n["version"], n["elsewhere"])
		}
		return fmt.Sprintf("The region %s has the edits of the rules that it lacked.", s.Level)
	case alerts.KindLogDropping:
		if on {
			return fmt.Sprintf("The decision log (%s) loses events: %d so far.", s.Level, n["dropped"])
		}
		return fmt.Sprintf("The decision log (%s) loses no more events.", s.Level)
	case alerts.KindNodeStarved:
		if on {
			return fmt.Sprintf("A node lacks CPU: %d of its %d checks of 30 seconds were late by more than the store timeout. "+
				"Raise its CPU limit.", n["late"], n["checks"])
		}
		return "No node lacks CPU any more."
	case alerts.KindTokenRefused:
		if on {
			return fmt.Sprintf("The API token %s is %s and still used: its calls are refused. Give its client a new token, or "+
				"stop the client.", s.Level, d.Cause)
		}
		return fmt.Sprintf("No call with the API token %s was refused for an hour.", s.Level)
	}
	return string(s.Kind) + " is " + state + "."
}

// pathOf is the page of the console that shows a subject.
func pathOf(s *alerts.Subject, d *Details) string {
	rule := "/console/rules/" + strconv.FormatInt(d.RuleID, 10)
	switch s.Kind {
	case alerts.KindKeyUsage, alerts.KindKeyHot, alerts.KindRuleDenials, alerts.KindRuleIdle:
		if d.RuleID > 0 {
			return rule
		}
		return "/console/rules"
	case alerts.KindFailModeEngaged, alerts.KindFailModeEnded, alerts.KindNodeStarved:
		return "/console/incidents"
	case alerts.KindRegionCutOff, alerts.KindRegionSetOld:
		return "/console/regions"
	case alerts.KindLogDropping:
		return "/console#live-logs"
	case alerts.KindTokenRefused:
		return "/console/tokens"
	}
	return "/console"
}

// summaryText says how many alerts a summary has, and how many of them ended: a reader must not take ends for alerts.
func summaryText(kind alerts.Kind, n, ended int64) string {
	noun := "alerts"
	if n == 1 {
		noun = "alert"
	}
	switch ended {
	case 0:
		return fmt.Sprintf("%d %s of the kind %s began.", n, noun, kind)
	case n:
		return fmt.Sprintf("%d %s of the kind %s ended.", n, noun, kind)
	}
	return fmt.Sprintf("%d alerts of the kind %s: %d began, %d ended.", n, kind, n-ended, ended)
}
