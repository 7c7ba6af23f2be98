package api

import (
	"errors"

	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/envoyfile"
	"sluice/rules/rulefile"
)

// envoyImport is how a configuration of envoyproxy/ratelimit is imported.
type envoyImport struct {
	opt envoyfile.Options
	// keep: rules that the files no longer have stay.
	keep bool
}

// importsEnvoy reads the parameters of an import with format=envoy; nil for a rules file.
func importsEnvoy(q *query) *envoyImport {
	var algorithms []string
	for _, a := range limiter.Algorithms() {
		algorithms = append(algorithms, a.String())
	}
	yes := func(name string) bool {
		v := q.boolean(name)
		return v != nil && *v
	}
	e := envoyImport{opt: envoyfile.Options{Algorithm: q.oneOf("algorithm", algorithms...),
		MergeDomains: yes("merge_domains"), CalendarMonths: yes("calendar_months")}, keep: yes("keep")}
	if a := e.opt.Algorithm; e.opt.CalendarMonths && a != "" && a != limiter.FixedWindow.String() {
		q.wrong("calendar_months", "needs fixed_window")
	}
	others, why := []string{"algorithm", "keep", "merge_domains", "calendar_months"}, "needs format=envoy"
	isEnvoy := q.oneOf("format", "rules", "envoy") == "envoy"
	if isEnvoy {
		others, why = []string{"prune"}, "is not a parameter of format=envoy; use keep"
	}
	for _, name := range others {
		if q.values.Has(name) {
			q.wrong(name, why)
		}
	}
	if !isEnvoy {
		return nil
	}
	return &e
}

// read reads the files and returns what plans their import. defaults are those of the server.
func (e *envoyImport) read(body []byte, defaults rules.FailDefaults) (planner, error) {
	in, err := envoyfile.Parse(envoyfile.Split(body), e.opt)
	var large *rulefile.TooLargeError
	if errors.As(err, &large) {
		return nil, reply.TooLarge.Problem(large.Error() + ".")
	}
	if err != nil {
		return nil, err
	}
	return func(current rules.File, answer *importPlan) error {
		if answer.Report = in.Notes(current.Rules); answer.Report == nil {
			answer.Report = []envoyfile.Note{}
		}
		if answer.Plan, err = in.Plan(current.Rules, e.keep); err == nil {
			defaults.NoteIn(&answer.Plan)
		}
		return err
	}, nil
}
