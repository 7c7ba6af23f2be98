package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"sluice/api/client"
	"sluice/rules/chars"
)

// explain prints the response that a check would get, and why.
func (c *checkCmd) explain(p *process, raw []byte) error {
	var e client.Explanation
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	if !c.JSON {
		fmt.Fprint(p.out, "would be ")
		render(&e.Decision, p.out)
		fmt.Fprintf(p.out, "\nrule set version %d, active rules: %d\n", e.SetVersion, e.ActiveRules)
		w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		for i := range e.Rules {
			r := &e.Rules[i]
			mark := " "
			if r.Matched {
				mark = "*"
			}
			key := r.Key
			if r.Home != "" {
				key += " at home in " + r.Home
			}
			fmt.Fprintf(w, "%s %s\t%s\t%s\n", mark, r.Name, chars.Shown(key), chars.Shown(r.Message))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if !e.Decision.Allowed {
		return errNo
	}
	return nil
}
