package webtest

import (
	"fmt"
	"time"

	"sluice/internal/access"
	"sluice/internal/history/incident"
)

// incidentPages are the pages of incidents in the gallery.
func incidentPages() []Shown {
	viewer := access.RoleViewer
	lasts := func(w *World) {
		w.Incidents.Change(func(f *Incidents) { f.List = append(f.List, RunningIncident()) })
	}
	return []Shown{
		{Name: "incidents", About: "Incidents", Role: viewer, Path: "/console/incidents"},
		{Name: "incidents-running", About: "Incidents, one running", Role: viewer, Path: "/console/incidents",
			Prepare: lasts},
		{Name: "incidents-rule", About: "Incidents of a rule and a node", Role: viewer,
			Path: "/console/incidents?rule=charges-per-user&node=10.0.0.1:8080", Prepare: lasts},
		{Name: "incidents-many", About: "Incidents, many", Role: viewer, Path: "/console/incidents",
			Prepare: func(w *World) { w.Incidents.Change(manyIncidents) }},
		{Name: "incidents-none", About: "No incidents", Role: viewer, Path: "/console/incidents",
			Prepare: func(w *World) { w.Incidents.Change(func(f *Incidents) { f.List = nil }) }},
		{Name: "incidents-search", About: "Incidents, no match", Role: viewer, Path: "/console/incidents?range=1h&rule=none"},
		{Name: "incidents-failing", About: "Incidents, database unreachable", Kind: Failing, Role: viewer,
			Path: "/console/incidents", Prepare: func(w *World) {
				lasts(w)
				w.Incidents.Change(func(f *Incidents) { f.Err = errAway })
			}},
		{Name: "incidents-wrong", About: "Incidents, invalid address", Role: viewer,
			Path: "/console/incidents?range=ever&from=noon"},
		{Name: "overview-incident", About: "Overview, an incident running", Role: viewer, Path: "/console", Prepare: lasts},
	}
}

func manyIncidents(f *Incidents) {
	for n := range 120 {
		in := f.List[0]
		in.ID = fmt.Sprint("many-", n)
		in.Begin = Now.Add(-time.Duration(n+2) * time.Hour)
		in.End, in.Opened = in.Begin.Add(time.Duration(n)*time.Minute), int64(n)
		if n == 0 {
			in.Server = "10.0.0.9:6379, redis-cluster-primary-with-a-long-name.example.internal:6379"
			in.Rules = nil
			for r := range 80 {
				in.Rules = append(in.Rules, incident.Rule{Rule: fmt.Sprint("a-rule-with-quite-a-long-name-", r), Local: 9})
			}
		}
		f.List = append(f.List, in)
	}
}
