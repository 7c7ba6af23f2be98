package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
	"sluice/rules/tree"
)

// descriptorExplanation is the response to POST /ratelimit/explain about descriptors of Envoy.
type descriptorExplanation struct {
	SetVersion  int64  `json:"set_version"`
	ActiveRules int    `json:"active_rules"`
	Domain      string `json:"domain"`
	// Decision is the response that a check with these limits would get now.
	Decision    json.RawMessage       `json:"decision"`
	Descriptors []explainedDescriptor `json:"descriptors"`
}

// explainedDescriptor says which rule applies to one descriptor, or why none does.
type explainedDescriptor struct {
	Matched bool                `json:"matched"`
	Reason  match.EntriesReason `json:"reason"`
	Message string              `json:"message"`
	// Over: the descriptor would be over its limit.
	Over bool `json:"over"`
	// Rule is the rule of the descriptor, if there is one. Key is its bucket, if it is in force.
	Rule *explainedRule `json:"rule,omitempty"`
	Key  string         `json:"key,omitempty"`
	// Home is set if the span of the rule is global_exact.
	Home string `json:"home,omitempty"`
	// Bucket is set if a limit applies. After is what would remain in it.
	Bucket   *bucketFigure   `json:"bucket,omitempty"`
	After    *int64          `json:"after,omitempty"`
	Override *overrideFigure `json:"override,omitempty"`
}

type explainedRule struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Mode    string `json:"mode"`
	Summary string `json:"summary"`
}

// replaced is the reason of a descriptor whose rule another one of the call replaces.
const replaced match.EntriesReason = "replaced"

func (s *Server) explainDescriptors(c echo.Context, v *tree.Value) error {
	q, err := decodeDescriptors(v)
	if err != nil {
		return err
	}
	if set := s.deps.Checker.Set(); set != nil {
		if profile := set.ProfileOf(q.Domain); profile != nil {
			return s.explainByFacts(c, q, profile, set)
		}
	}
	said, err := s.deps.Checker.ExplainDescriptors(c.Request().Context(), q)
	if err != nil {
		return err
	}
	e := descriptorExplanation{
		SetVersion: said.SetVersion, ActiveRules: said.ActiveRules, Domain: q.Domain,
		Decision:    (&encoder{style: s.style}).append(nil, &said.Answer.Answer),
		Descriptors: make([]explainedDescriptor, len(said.Descriptors)),
	}
	for i := range said.Descriptors {
		d := &said.Descriptors[i]
		out := explainedDescriptor{Matched: d.Matched, Reason: d.Reason, Message: d.Sentence, Over: d.Over, Key: d.Display}
		if d.State == decide.StateReplaced {
			out.Matched, out.Reason, out.Message = false, replaced, "The rule of another descriptor of the call replaces it."
		}
		if d.Rule != nil {
			r := &d.Rule.Rule
			out.Rule = &explainedRule{r.ID, r.Name, r.Mode, r.Summary()}
		}
		if o := d.Override; o.ID != 0 {
			out.Override = &overrideFigure{ID: o.ID, Wildcard: o.Prefix, Unlimited: o.Unlimited, Blocked: o.Blocked}
		}
		if d.Bucket != nil {
			out.Home = d.Bucket.Home
		}
		if out.Bucket = figureOf(d.Bucket); out.Bucket != nil {
			out.Bucket.Allowed, out.After = !d.Over, &d.Bucket.After
		}
		e.Descriptors[i] = out
	}
	return writeJSON(c, http.StatusOK, e)
}

// aboutDescriptors reports whether a body asks about descriptors of Envoy, and not about a request.
func aboutDescriptors(v *tree.Value) bool {
	return v.Member("domain") != nil || v.Member("descriptors") != nil
}

// descriptorReader reads the question about a call, in the names of the protocol's JSON.
type descriptorReader struct{ input }

// decodeDescriptors reads a call. Errors are *malformedError or *field.ValidationError.
func decodeDescriptors(v *tree.Value) (*decide.DescriptorQuestion, error) {
	var in descriptorReader
	q := &decide.DescriptorQuestion{}
	for i := range v.Members {
		switch m := &v.Members[i]; m.Name {
		case "domain":
			q.Domain = in.text(m.Name, &m.Value, 1, entries.MaxDomain)
		case "descriptors":
			if m.Value.Kind != tree.List || len(m.Value.List) < 1 || len(m.Value.List) > decide.MaxDescriptors {
				in.wrong(m.Name, "must be a list of 1 to %d descriptors", decide.MaxDescriptors)
				continue
			}
			for j := range m.Value.List {
				d, err := in.descriptor(fmt.Sprintf("descriptors[%d]", j), &m.Value.List[j])
				if err != nil {
					return nil, err
				}
				q.Descriptors = append(q.Descriptors, d)
			}
		default:
			return nil, unknownMember(m.Name)
		}
	}
	for _, name := range []string{"domain", "descriptors"} {
		if v.Member(name) == nil {
			in.wrong(name, "is required")
		}
	}
	return q, in.err()
}

func (in *descriptorReader) descriptor(at string, v *tree.Value) (d decide.AskedDescriptor, err error) {
	d.Addend = 1
	if v.Kind != tree.Object {
		in.wrong(at, "must be an object, not %s", v.Kind)
		return d, nil
	}
	for i := range v.Members {
		switch m := &v.Members[i]; m.Name {
		case "entries":
			if m.Value.Kind != tree.List || len(m.Value.List) < 1 || len(m.Value.List) > rules.MaxEntries {
				in.wrong(at+".entries", "must be a list of 1 to %d entries", rules.MaxEntries)
				continue
			}
			for j := range m.Value.List {
				e, err := in.entry(fmt.Sprintf("%s.entries[%d]", at, j), &m.Value.List[j])
				if err != nil {
					return d, err
				}
				d.Entries = append(d.Entries, e)
			}
		case "hits_addend":
			n, err := strconv.ParseInt(m.Value.Text, 10, 64)
			if m.Value.Kind != tree.Whole || err != nil || n < 0 || n > limiter.MaxExact {
				in.wrong(at+".hits_addend", "must be an integer between 0 and %d", limiter.MaxExact)
				continue
			}
			d.Addend, d.Explicit = n, true
		default:
			return d, unknownMember(m.Name)
		}
	}
	if v.Member("entries") == nil {
		in.wrong(at+".entries", "is required")
	}
	return d, nil
}

func (in *descriptorReader) entry(at string, v *tree.Value) (e entries.Entry, err error) {
	if v.Kind != tree.Object {
		in.wrong(at, "must be an object, not %s", v.Kind)
		return e, nil
	}
	for i := range v.Members {
		switch m := &v.Members[i]; m.Name {
		case "key":
			e.Key = in.text(at+".key", &m.Value, 1, maxText)
		case "value":
			e.Value = in.text(at+".value", &m.Value, 0, maxText)
		default:
			return e, unknownMember(m.Name)
		}
	}
	if v.Member("key") == nil {
		in.wrong(at+".key", "is required")
	}
	return e, nil
}

func (in *descriptorReader) text(at string, v *tree.Value, least, most int) string {
	switch {
	case v.Kind != tree.Text:
		in.wrong(at, "must be a string")
	case len(v.Text) < least || len(v.Text) > most:
		in.wrong(at, "must have %d to %d bytes", least, most)
	}
	return v.Text
}
