package rules

import (
	"strings"

	"sluice/rules/field"
	"sluice/rules/profile"
)

// DistinctDomains refuses two profiles with the same domain. The error is a *TakenError.
func DistinctDomains(list []profile.Profile) error {
	owners := map[string]string{}
	for i := range list {
		p := &list[i]
		if other, taken := owners[p.Domain]; taken {
			return &TakenError{field.Problem{Field: "domain", Message: domainTaken(other)}}
		} else if p.Domain != "" {
			owners[p.Domain] = p.Name
		}
	}
	return nil
}

// Identity is the same for two descriptors that apply to the same descriptors of Envoy.
func (d *RuleDescriptor) Identity() string {
	texts := make([][3]string, len(d.Entries))
	for i, e := range d.Entries {
		texts[i] = [3]string{e.Key, e.Value, e.Pattern}
	}
	return field.JSONText([]any{d.Domain, texts})
}

// DescriptorTaken is the error for active rules with the same descriptor, of which only one would apply.
func DescriptorTaken(names ...string) *TakenError {
	return &TakenError{field.Problem{Field: "descriptor",
		Message: "is the same in the active rules " + strings.Join(names, " and ")}}
}

func domainTaken(other string) string { return "is already used by the profile " + other }

// CheckUnique refuses an import of the file after which two profiles would have the same domain, or two active rules
// the same descriptor. current and prune are as in MakeFilePlan. The error is a *field.ValidationError.
func (f *File) CheckUnique(current File, prune bool) error {
	var ps field.Problems
	f.uniqueDomains(current, prune, &ps)
	f.uniqueDescriptors(current, prune, &ps)
	if len(ps) > MaxFileErrors {
		ps = ps[:MaxFileErrors]
	}
	if len(ps) > 0 {
		return &field.ValidationError{Fields: ps}
	}
	return nil
}

func (f *File) uniqueDomains(current File, prune bool, ps *field.Problems) {
	replaced := make(map[string]bool, len(f.Profiles))
	for i := range f.Profiles {
		replaced[f.Profiles[i].Name] = true
	}
	owners := map[string]string{}
	if f.Profiles == nil || !prune {
		for i := range current.Profiles {
			if p := &current.Profiles[i]; p.Domain != "" && !replaced[p.Name] {
				owners[p.Domain] = p.Name
			}
		}
	}
	for i := range f.Profiles {
		p := &f.Profiles[i]
		if other, taken := owners[p.Domain]; taken {
			ps.Add(field.Path("profiles", i)+".domain", "%s", domainTaken(other))
		} else if p.Domain != "" {
			owners[p.Domain] = p.Name
		}
	}
}

func (f *File) uniqueDescriptors(current File, prune bool, ps *field.Problems) {
	replaced := make(map[string]bool, len(f.Rules))
	for i := range f.Rules {
		replaced[f.Rules[i].Name] = true
	}
	owners := map[string]string{}
	if !prune {
		for i := range current.Rules {
			if r := &current.Rules[i]; r.Descriptor != nil && r.IsActive && !replaced[r.Name] {
				owners[r.Descriptor.Identity()] = r.Name
			}
		}
	}
	for i := range f.Rules {
		r := &f.Rules[i]
		if r.Descriptor == nil || !r.IsActive {
			continue
		}
		identity := r.Descriptor.Identity()
		if other, taken := owners[identity]; taken {
			ps.Add(field.Path("rules", i)+".descriptor", "%s", DescriptorTaken(other, r.Name).Message)
		} else {
			owners[identity] = r.Name
		}
	}
}
