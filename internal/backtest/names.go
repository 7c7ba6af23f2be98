package backtest

import (
	"strings"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/rules/match"
)

// nameOf returns the name of a bucket for people. Values that are hashes in the log are shown as these hashes: the name
// of the bucket in the replay contains stand-ins for them, which nobody knows.
func nameOf(la *decide.LimitAnswer, from *records.Event) string {
	f := from.Facts
	if la.Direct || f == nil {
		return la.Display()
	}
	if hashed, _ := concealed(f); hashed == 0 {
		return la.Display()
	}
	var labels []string
	name := match.DisplayKeyWith(la.Key, func(label, v string) string {
		labels = append(labels, label)
		for _, fact := range [...]struct{ label, v string }{{"user:", f.User}, {"apikey:", f.APIKey}, {"ip:", f.IP}} {
			if is, _ := records.Concealed(fact.v); is && label == fact.label {
				return fact.v
			}
		}
		return v
	})
	for i := range from.Limits {
		if l := &from.Limits[i]; l.Rule == la.Name() && hasLabels(l.Key, labels) {
			return l.Key // the same bucket, if the rule counts by the same facts
		}
	}
	return name
}

// hasLabels reports whether the facts of a bucket's name have just these labels, such as user: and ip:.
func hasLabels(name string, labels []string) bool {
	for i, label := range labels {
		fact, rest, more := strings.Cut(name, "+")
		if !strings.HasPrefix(fact, label) || more != (i < len(labels)-1) {
			return false
		}
		name = rest
	}
	return len(labels) > 0
}
