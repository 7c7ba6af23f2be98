package ruleedit_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestMoment_IsInTheZoneThatIsNamed(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for name, c := range map[string]struct{ at, zone, want, wrong string }{
		"winter":                {"2027-01-31T18:00", "Europe/Berlin", "2027-01-31T17:00:00Z", ""},
		"summer":                {"2027-07-31T18:00", "Europe/Berlin", "2027-07-31T16:00:00Z", ""},
		"nothing is UTC":        {"2027-07-31T18:00:30", "", "2027-07-31T18:00:30Z", ""},
		"a zone of its own":     {"2027-07-31T18:00:00+09:00", "Europe/Berlin", "2027-07-31T09:00:00Z", ""},
		"an hour that is twice": {"2027-10-31T02:30", "Europe/Berlin", "2027-10-31T00:30:00Z", ""},
		"an hour that is not": {"2027-03-28T02:30", "Europe/Berlin", "",
			`id="f-active_from-hint">does not exist in this time zone`},
		"a zone that is not": {"2027-03-28T02:30", "Mars/Olympus", "",
			`id="f-active_from.zone-hint">must be the IANA name`},
		"the zone of the server": {"2027-03-28T02:30", "Local", "", `id="f-active_from.zone-hint">must be the IANA name`},
		"nonsense":               {"<b>soon</b>", "UTC", "", `id="f-active_from-hint">must be a date and time`},
	} {
		page := b.Post("/console/rules", webtest.RuleForm("name", "timed", "active_from", c.at, "active_from.zone", c.zone))
		if c.wrong != "" {
			if page.Code != http.StatusUnprocessableEntity ||
				!page.Has(c.wrong, `<details class="card more" id="more-schedule" open>`) || page.Has("<b>soon") {
				t.Errorf("%s: %d\n%s", name, page.Code, page.Body)
			}
			continue
		}
		r := w.Rules.Named("timed")
		if page.Code != http.StatusSeeOther || r == nil || r.ActiveFrom.Format(time.RFC3339) != c.want {
			t.Errorf("%s: %d %v, want %s", name, page.Code, r, c.want)
			continue
		}
		w.Rules.List = w.Rules.List[:len(w.Rules.List)-1]
	}
	page := b.Post("/console/rules/1/overrides",
		url.Values{"key": {"user:77"}, "kind": {"blocked"}, "expires_at": {"2027-01-31T18:00"},
			"expires_at.zone": {"America/New_York"}})
	if page.Code != http.StatusSeeOther || w.Overrides.List[3].ExpiresAt.Format(time.RFC3339) != "2027-01-31T23:00:00Z" {
		t.Errorf("the end of an override: %d", page.Code)
	}
	if page := b.Get("/console/rules/1/overrides/4/edit"); !page.Has(`value="2027-01-31T23:00"`,
		`name="expires_at.zone" type="text" value="UTC"`) {
		t.Errorf("the end of an override, again: %s", page.Body)
	}
}
