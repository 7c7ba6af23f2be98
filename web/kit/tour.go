package kit

import (
	"net/http"
	"strconv"

	"sluice/web/view"
)

const (
	// tourParam is the query parameter that marks a page as a stop of the tour. Its value is the number of the stop.
	tourParam = "tour"
	// tourCookie closes the tour of a node in a browser. Its value is the ID of the node's process: the next demo has a
	// tour again.
	tourCookie = "sluice_tour"
)

// TourStop is a page of a tour of the console.
type TourStop = view.TourStop

// tour returns the stop of the tour at this page. It is nil if the page is no stop, or if this browser closed the tour.
// The home page is the first stop.
func (v *Visit) tour() *view.Tour {
	stops := v.kit.Tour
	if len(stops) == 0 {
		return nil
	}
	if c, err := v.Request().Cookie(tourCookie); err == nil && c.Value == v.kit.Node().ID {
		return nil
	}
	number, err := strconv.Atoi(v.QueryParam(tourParam))
	if v.Request().URL.Path == PathHome && !v.QueryParams().Has(tourParam) {
		number, err = 1, nil
	}
	if err != nil || number < 1 || number > len(stops) {
		return nil
	}
	return &view.Tour{Stops: stops, Number: number}
}

// CloseTour closes the tour in this browser.
func (k *Kit) CloseTour(v *Visit) error {
	if len(k.Tour) == 0 {
		return ErrMissing
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	v.SetCookie(&http.Cookie{Name: tourCookie, Value: k.Node().ID, Path: PathHome, HttpOnly: true,
		Secure: k.encrypted(v.Request()), SameSite: http.SameSiteLaxMode})
	return v.SeeOther(Local(form.Get("back")))
}
