package rules

// DistinctDomains refuses two profiles with the same domain. The error is a *TakenError.
func DistinctDomains(list []Profile) error {
	owners := map[string]string{}
	for i := range list {
		p := &list[i]
		if other, taken := owners[p.Domain]; taken {
			return &TakenError{FieldError{"domain", domainTaken(other)}}
		} else if p.Domain != "" {
			owners[p.Domain] = p.Name
		}
	}
	return nil
}

func domainTaken(other string) string { return "is already used by the profile " + other }

// CheckUnique refuses an import of the file after which two profiles would have the same domain. current and prune are
// those of MakeFilePlan. The error is a *ValidationError.
func (f *File) CheckUnique(current File, prune bool) error {
	var ps problems
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
			ps = append(ps, FieldError{path("profiles", i) + ".domain", domainTaken(other)})
		} else if p.Domain != "" {
			owners[p.Domain] = p.Name
		}
	}
	if len(ps) > 0 {
		return &ValidationError{Fields: ps}
	}
	return nil
}
