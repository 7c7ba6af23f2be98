package view

import (
	"net/url"
)

// TourStop is a page of a tour of the console, which sluice demo has.
type TourStop struct {
	// Title is a few words, About describes the content of the page.
	Title, About string
	// Path is the path and query of the page.
	Path string
}

// Tour is the position of a page in a tour.
type Tour struct {
	Stops []TourStop
	// Number is the number of the stop, from 1.
	Number int
}

func (t *Tour) stop() *TourStop { return &t.Stops[t.Number-1] }

// place is "Stop 2 of 6".
func (t *Tour) place() string { return "Stop " + Count(t.Number) + " of " + Count(len(t.Stops)) }

// at returns the address of a stop. The first stop is number 1.
func (t *Tour) at(number int) string {
	u, err := url.Parse(t.Stops[number-1].Path)
	if err != nil {
		return "/console"
	}
	q := u.Query()
	q.Set("tour", Digits(number))
	u.RawQuery = q.Encode()
	return u.String()
}
