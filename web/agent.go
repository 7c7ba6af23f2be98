package web

import "strings"

// agentOf says in a few words with what someone signed in, by what browsers call
// themselves; it is a help for people, not a fact.
func agentOf(header string) string {
	browser, system := "", ""
	for _, b := range []struct{ sign, name string }{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	} {
		if strings.Contains(header, b.sign) {
			browser = b.name
			break
		}
	}
	for _, o := range []struct{ sign, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	} {
		if strings.Contains(header, o.sign) {
			system = o.name
			break
		}
	}
	switch {
	case browser != "" && system != "":
		return browser + " on " + system
	case browser+system != "":
		return browser + system
	}
	return "another program"
}
