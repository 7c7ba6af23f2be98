package profiles

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/web/kit"
	"sluice/web/view"
)

// list shows all profiles.
func (p *Pages) list(v *kit.Visit) error {
	list, err := p.Store.List(v.Ctx)
	if err != nil {
		return err
	}
	return v.Page(http.StatusOK, listPage(v.Frame("Profiles", kit.PathProfiles), list))
}

// show is the page of one profile, for reading.
func (p *Pages) show(v *kit.Visit) error {
	profile, err := p.Store.Get(v.Ctx, v.Param("name"))
	if err != nil {
		return err
	}
	c, err := p.connection(v, profile.Name)
	if err != nil {
		return err
	}
	f := v.Frame("Profile "+profile.Name, kit.PathProfiles)
	return v.Page(http.StatusOK, profilePage(f, &profile, values(&profile), c))
}

// objects are the form of a profile, saving and deleting.
func (p *Pages) objects() *kit.Objects[profile.Profile] {
	return &kit.Objects[profile.Profile]{
		Kit: p.Kit, Kind: rules.ProfileKind, Store: p.Store, List: kit.PathProfiles, Page: formPage, Values: values,
		New: profile.New, Prefill: prefill, Read: read, Saved: profilePath,
		Differ: func(theirs, ours *profile.Profile) []field.Change {
			return differences(values(theirs), values(ours))
		},
	}
}

func profilePath(name string) string { return kit.PathProfiles + "/" + url.PathEscape(name) }

// differences lists the inputs in which two forms differ, with their texts on one line.
func differences(theirs, ours url.Values) (changes []field.Change) {
	for _, in := range inputs {
		was, is := oneLine(theirs.Get(in.name)), oneLine(ours.Get(in.name))
		if was == is || in.name == "name" {
			continue
		}
		c := field.Change{Field: in.label}
		if was != "" {
			c.Old = was
		}
		if is != "" {
			c.New = is
		}
		changes = append(changes, c)
	}
	return changes
}

// oneLine writes the lines of a text one after the other.
func oneLine(text string) string { return strings.Join(slices.Collect(lines(text)), ", ") }

// factNames returns the names, for people, of the facts that a profile reads.
func factNames(p *profile.Profile) []string {
	var names []string
	for _, f := range []struct {
		name string
		from []profile.Source
	}{{"user", p.Facts.User}, {"API key", p.Facts.APIKey}, {"tier", p.Facts.Tier}} {
		if len(f.from) > 0 {
			names = append(names, f.name)
		}
	}
	return slices.Concat(names, sorted(p.Facts.Attributes), sorted(p.Facts.Fields))
}

// proofWords says how a gateway proves itself.
func proofWords(p *profile.Profile) string {
	var ways []string
	if p.Proof.Token {
		ways = append(ways, "token")
	}
	if n := len(p.Proof.Networks); n > 0 {
		ways = append(ways, view.Plural(int64(n), "network"))
	}
	if n := len(p.Proof.Certificates); n > 0 {
		ways = append(ways, view.Plural(int64(n), "certificate"))
	}
	return strings.Join(ways, ", ")
}

// listed is a list on one line, shortened.
func listed(names []string) string {
	const most = 6
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and " + view.Count(len(names)-most) + " more"
	}
	return strings.Join(names, ", ")
}
