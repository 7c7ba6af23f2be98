package demo

import (
	"fmt"
	"net/url"

	"sluice/rules"
	"sluice/web"
)

// tour leads from a flood to what it left behind.
func tour(byName map[string]rules.Rule) []web.TourStop {
	page := func(rule string) string { return fmt.Sprint("/console/rules/", byName[rule].ID) }
	return []web.TourStop{
		{Title: "Who is denied?", Path: "/console",
			About: fmt.Sprintf("This page shows all requests and who is denied now. Every %d minutes %s tries passwords "+
				"for %d seconds.", floodMinutes, flooder, floodSeconds)},
		{Title: "The key that floods",
			Path: "/console/keys?" + url.Values{"rule": {logins}, "key": {"ip:" + flooder}}.Encode(),
			About: "One key of one rule: what it has left, when it was denied, and whether it is banned. " +
				"You can unban it, block it or give it another limit here."},
		{Title: "The rule that stops it", Path: page(logins) + "?range=24h",
			About: "The chart has the last 24 hours of this rule. Marks show edits and incidents."},
		{Title: "A limit on trial", Path: page(charges),
			About: "The candidate counts real requests and denies nothing. The page says how many would change, " +
				"and whether that is enough evidence to promote it."},
		{Title: "Why was this denied?", Path: "/console/denials",
			About: "Each denial has a link Explain. It shows the rules that applied and what each of them had left."},
		{Title: "What happened before", Path: "/console/incidents",
			About: "Seven hours ago this node lacked CPU. Incidents say since when, why, and what fail modes decided. " +
				"Alerts are beside them in the menu."},
	}
}
