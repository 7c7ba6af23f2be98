package evaluate

import (
	"fmt"
	"strconv"
	"time"

	"sluice/internal/alerts"
	"sluice/rules/quantity"
)

// textOf describes an active or ended condition in a sentence. For an active condition the sentence names its beginning
// and the time of its figures, so that it stays true however late it is read.
func textOf(s *subject, state string, d *Details) string {
	if state == alerts.On {
		return onText(s, d)
	}
	of := &s.Subject
	switch of.Kind {
	case alerts.KindKeyUsage:
		return fmt.Sprintf("The key %s is below %s%% of its limit of the rule %s again.", of.Key, of.Level, of.Rule)
	case alerts.KindRuleDenials:
		return fmt.Sprintf("The rule %s denies fewer requests again.", of.Rule)
	case alerts.KindKeyHot:
		return fmt.Sprintf("The key %s of the rule %s is no longer hot.", of.Key, of.Rule)
	case alerts.KindFailModeEngaged, alerts.KindFailModeEnded:
		return "The counter store decides requests again; fail modes no longer do."
	case alerts.KindRuleIdle:
		return fmt.Sprintf("The rule %s matches requests again, or was edited.", of.Rule)
	case alerts.KindSetRefused:
		return "The stored rules compile again."
	case alerts.KindSetOld:
		return "The rules database confirms the rules of every node again."
	case alerts.KindRegionCutOff:
		return fmt.Sprintf("The regions %s hear each other again.", of.Level)
	case alerts.KindRegionSetOld:
		return fmt.Sprintf("The region %s has the edits of the rules that it lacked.", of.Level)
	case alerts.KindLogDropping:
		return fmt.Sprintf("The decision log (%s) loses no more events.", of.Level)
	case alerts.KindNodeStarved:
		return "No node lacks CPU any more."
	case alerts.KindTokenRefused:
		return fmt.Sprintf("No call with the API token %s was refused for an hour.", of.Level)
	case alerts.KindTokenExpiring:
		return fmt.Sprintf("The API token %s was rotated or revoked, or has expired.", of.Level)
	}
	return string(of.Kind) + " is " + state + "."
}

// onText says what is on.
func onText(s *subject, d *Details) string {
	of, n := &s.Subject, func(name string) string { return quantity.Amount(d.Numbers[name]) }
	share := quantity.Share(d.Numbers["denied"], d.Numbers["requests"])
	at := time.UnixMilli(s.Figures)
	then, since, first := clock(at, at), clock(time.UnixMilli(s.Since), at), s.Figures-s.Since < time.Second.Milliseconds()
	switch of.Kind {
	case alerts.KindKeyUsage:
		text := fmt.Sprintf("The key %s reached %s%% of its limit of the rule %s at %s: %s of %s", of.Key, of.Level, of.Rule,
			since, n("used"), n("limit"))
		if first {
			return text + "."
		}
		return text + " at " + then + "."
	case alerts.KindRuleDenials:
		if first {
			return fmt.Sprintf("The rule %s denied %s of %s requests (%s) in the minute before %s.", of.Rule, n("denied"),
				n("requests"), share, then)
		}
		return fmt.Sprintf("The rule %s has denied many requests since %s: %s of %s (%s) in the minute before %s.",
			of.Rule, since, n("denied"), n("requests"), share, then)
	case alerts.KindKeyHot:
		return fmt.Sprintf("The key %s of the rule %s has been hot since %s: %s requests a second at %s.", of.Key, of.Rule,
			since, n("per_second"), then)
	case alerts.KindFailModeEngaged, alerts.KindFailModeEnded:
		text := "Fail modes have decided requests since " + since + ", because the counter store cannot"
		if d.Cause != "" {
			text += ": " + d.Cause
		}
		return text + "."
	case alerts.KindRuleIdle:
		return fmt.Sprintf("The rule %s matched no request in the week before %s.", of.Rule, since)
	case alerts.KindSetRefused:
		return fmt.Sprintf("The stored rules have not compiled since %s (version %d). Nodes keep the previous ones.", since,
			d.Numbers["version"])
	case alerts.KindSetOld:
		confirmed := at.Add(-time.Duration(d.Numbers["age_s"]) * time.Second)
		return "A node has decided by rules that the rules database has not confirmed since " + clock(confirmed, at) + "."
	case alerts.KindRegionCutOff:
		return fmt.Sprintf("The regions %s have been cut off from each other since %s.", of.Level, since)
	case alerts.KindRegionSetOld:
		return fmt.Sprintf("The region %s has lacked edits of the rules for over five minutes since %s: it has version %d, "+
			"others have %d.", of.Level, since, d.Numbers["version"], d.Numbers["elsewhere"])
	case alerts.KindLogDropping:
		return fmt.Sprintf("The decision log (%s) has lost events since %s: %s by %s.", of.Level, since, n("dropped"), then)
	case alerts.KindNodeStarved:
		return fmt.Sprintf("A node has lacked CPU since %s: %s of its %s checks in the 30 seconds before %s were late by "+
			"more than the store timeout. Raise its CPU limit.", since, n("late"), n("checks"), then)
	case alerts.KindTokenRefused:
		return fmt.Sprintf("The API token %s is %s and has been used since %s: its calls are refused. Give its client a new "+
			"token, or stop the client.", of.Level, d.Cause, since)
	case alerts.KindTokenExpiring:
		ends := time.UnixMilli(d.Numbers["expires_at_ms"]).UTC().Format(time.DateTime)
		return fmt.Sprintf("The API token %s expires at %s UTC. Rotate it, and give its client the new secret.",
			of.Level, ends)
	}
	return string(of.Kind) + " has been on since " + since + "."
}

// clock is an instant of UTC, with its day unless that is the day of by.
func clock(t, by time.Time) string {
	t, by = t.UTC(), by.UTC()
	if t.Format(time.DateOnly) != by.Format(time.DateOnly) {
		return t.Format(time.DateTime) + " UTC"
	}
	return t.Format(time.TimeOnly) + " UTC"
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
	case alerts.KindTokenRefused, alerts.KindTokenExpiring:
		return "/console/tokens"
	}
	return "/console"
}

// summaryText says how many alerts a summary has, and how many of them ended: a reader must not take ends for alerts.
func summaryText(kind alerts.Kind, n, ended int64) string {
	switch ended {
	case 0:
		return fmt.Sprintf("%s of the kind %s began.", quantity.Plural(n, "alert"), kind)
	case n:
		return fmt.Sprintf("%s of the kind %s ended.", quantity.Plural(n, "alert"), kind)
	}
	return fmt.Sprintf("%s of the kind %s: %s began, %s ended.", quantity.Plural(n, "alert"), kind,
		quantity.Amount(n-ended), quantity.Amount(ended))
}
