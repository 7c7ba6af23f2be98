package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/entries"
	"sluice/rules/facts"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// explainByFacts explains a call of Envoy whose domain a profile reads: the descriptors describe one request, to which
// ordinary rules apply, at the largest addend.
func (s *Server) explainByFacts(c echo.Context, q *decide.DescriptorQuestion, profile *profile.Profile,
	set *match.Set) error {
	reader, err := facts.New(profile)
	if err != nil {
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "domain", Message: "is read by profile " + profile.Name + ", which cannot be used: " + err.Error()}}}
	}
	weight := int64(0)
	lists := make([][]entries.Entry, len(q.Descriptors))
	for i := range q.Descriptors {
		weight, lists[i] = max(weight, q.Descriptors[i].Addend), q.Descriptors[i].Entries
	}
	var read facts.Facts
	reader.ReadEntries(lists, &read)
	said := &decide.Explanation{SetVersion: set.Version(), ActiveRules: set.Len(),
		Answer: decide.Answer{Op: limiter.OpPeek, Verdict: decide.Allowed, Strictest: -1}}
	message := "reads the descriptors as one request."
	switch {
	case read.Skip:
		message = "allows the method " + read.Descriptor.Method + " without a check."
	case read.Denied != "":
		said.Answer.Verdict = decide.Denied
		message = "denies the request, because the fact " + read.Denied + " is missing."
	default:
		ask := &decide.Question{Descriptor: read.Descriptor, Weight: weight}
		if said, err = s.deps.Checker.Explain(c.Request().Context(), ask); err != nil {
			return err
		}
	}
	e := s.explanation(said)
	e.Profile, e.Message = profile.Name, "Profile "+profile.Name+" "+message
	return writeJSON(c, http.StatusOK, e)
}
