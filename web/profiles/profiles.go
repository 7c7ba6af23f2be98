package profiles

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// list shows all profiles.
func (p *Pages) list(v *kit.Visit) error {
	list, err := p.Store.ListProfiles(v.Ctx)
	if err != nil {
		return err
	}
	return v.Page(http.StatusOK, listPage(v.Frame("Profiles", kit.PathProfiles), list))
}

// show is the page of one profile, for reading.
func (p *Pages) show(v *kit.Visit) error {
	profile, err := p.Store.GetProfile(v.Ctx, v.Param("name"))
	if err != nil {
		return err
	}
	f := v.Frame("Profile "+profile.Name, kit.PathProfiles)
	return v.Page(http.StatusOK, profilePage(f, &profile, values(&profile)))
}

// create is the form for a new profile.
func (p *Pages) create(v *kit.Visit) error {
	profile := rules.NewProfile()
	return p.form(v, http.StatusOK, Form{Form: view.NewForm(values(&profile), nil)})
}

// edit is the form of an existing profile.
func (p *Pages) edit(v *kit.Visit) error {
	profile, err := p.Store.GetProfile(v.Ctx, v.Param("name"))
	if err != nil {
		return err
	}
	return p.form(v, http.StatusOK, Form{Name: profile.Name, Form: view.NewForm(values(&profile), nil)})
}

func (p *Pages) form(v *kit.Visit, status int, m Form) error {
	title := "New profile"
	if m.Name != "" {
		title = "Profile " + m.Name
	}
	return v.Page(status, formPage(v.Frame(title, kit.PathProfiles), m))
}

// Form is the form of a profile.
type Form struct {
	// Name is empty for a new one.
	Name    string
	Form    view.Form
	Problem string
	// Changes are the differences between what someone else saved in the meantime and the form.
	Changes []rules.Change
}

// save creates or updates a profile.
func (p *Pages) save(v *kit.Visit, form url.Values) error {
	m := Form{Name: v.Param("name")}
	if m.Name != "" {
		form.Set("name", m.Name)
	}
	profile, fields := read(form)
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 {
		var err error
		if m.Name == "" {
			profile, err = p.Store.CreateProfile(v.Ctx, v.Actor(), profile)
		} else {
			profile, err = p.Store.UpdateProfile(v.Ctx, v.Actor(), profile, kit.Version(form))
		}
		if errors.Is(err, rules.ErrStale) {
			var theirs rules.Profile
			if theirs, err = p.Store.GetProfile(v.Ctx, m.Name); err == nil {
				return p.stale(v, form, m, &theirs, &profile)
			}
		}
		switch {
		case err == nil:
			v.WaitInForce(p.Changed)
			v.Flash("Profile %s saved.", profile.Name)
			return v.SeeOther(profilePath(profile.Name))
		case errors.Is(err, rules.ErrNameTaken):
			status = http.StatusConflict
			fields = []rules.FieldError{{Field: "name", Message: "is already used by another profile"}}
		case errors.As(err, new(*rules.TakenError)):
			status, fields = http.StatusConflict, kit.FieldsOf(err)
		case errors.Is(err, rules.ErrNotFound) && m.Name != "":
			m.Name, m.Problem, status = "", kit.DeletedMeanwhile, http.StatusConflict
		case errors.Is(err, rules.ErrUnavailable):
			m.Problem, status = kit.NotSaved(err), http.StatusServiceUnavailable
		default:
			if fields = kit.FieldsOf(err); fields == nil {
				return err
			}
		}
	}
	m.Form = view.NewForm(form, fields)
	return p.form(v, status, m)
}

// stale shows the form again with the differences to what someone else saved in the meantime. If there are none,
// nothing is left to save.
func (p *Pages) stale(v *kit.Visit, form url.Values, m Form, theirs, ours *rules.Profile) error {
	if m.Changes = differences(values(theirs), values(ours)); len(m.Changes) == 0 {
		v.Flash("Someone else has saved the same changes to profile %s.", m.Name)
		return v.SeeOther(profilePath(m.Name))
	}
	form.Set("version", strconv.FormatInt(theirs.Version, 10))
	m.Form = view.NewForm(form, nil)
	return p.form(v, http.StatusConflict, m)
}

func profilePath(name string) string { return kit.PathProfiles + "/" + url.PathEscape(name) }

// differences lists the inputs in which two forms differ, with their texts on one line.
func differences(theirs, ours url.Values) (changes []rules.Change) {
	for _, in := range inputs {
		was, is := oneLine(theirs.Get(in.name)), oneLine(ours.Get(in.name))
		if was == is || in.name == "name" {
			continue
		}
		c := rules.Change{Field: in.label}
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

// delete deletes a profile.
func (p *Pages) delete(v *kit.Visit, form url.Values) error {
	name := v.Param("name")
	if err := p.Store.DeleteProfile(v.Ctx, v.Actor(), name, kit.Version(form)); err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.Flash("Profile %s deleted.", name)
	return v.SeeOther(kit.PathProfiles)
}

// factNames are the facts that a profile reads, in words.
func factNames(p *rules.Profile) []string {
	var names []string
	for _, f := range []struct {
		name string
		from []rules.FactSource
	}{{"user", p.Facts.User}, {"API key", p.Facts.APIKey}, {"tier", p.Facts.Tier}} {
		if len(f.from) > 0 {
			names = append(names, f.name)
		}
	}
	return slices.Concat(names, sorted(p.Facts.Attributes), sorted(p.Facts.Fields))
}

// proofWords says how a gateway proves itself.
func proofWords(p *rules.Profile) string {
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
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
	}
	return strings.Join(names, ", ")
}
