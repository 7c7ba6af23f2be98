package webtest

import "sluice/web"

// Tour gives a world the tour of a demo, of two stops.
func Tour(w *World) {
	d := w.Deps(nil)
	d.Tour = []web.TourStop{
		{Title: "Who is denied?", Path: "/console", About: "This page shows all requests and who is denied now."},
		{Title: "The rule that stops it", Path: "/console/rules/1?range=24h", About: "The chart has the last 24 hours."},
	}
	if err := w.Serve(d); err != nil {
		panic(err) // the dependencies are those of a world that was served
	}
}
