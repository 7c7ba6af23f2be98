package rules

import "sluice/rules/quantity"

// PeriodWords returns what a rule's limit is per: "minute", "calendar month".
func (r *Rule) PeriodWords() string {
	if r.Calendar != nil {
		return "calendar " + r.Calendar.Every
	}
	return quantity.Period(r.WindowMS)
}
