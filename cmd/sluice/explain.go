package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
)

// explanation is the part of the response to an explain that the command prints.
type explanation struct {
	SetVersion  int64  `json:"set_version"`
	ActiveRules int    `json:"active_rules"`
	Decision    answer `json:"decision"`
	Rules       []struct {
		Name    string `json:"name"`
		Matched bool   `json:"matched"`
		Message string `json:"message"`
		Key     string `json:"key"`
	} `json:"rules"`
}

// explain prints the response that a check would get, and why.
func (c *checkCmd) explain(p *process, raw []byte) error {
	var e explanation
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	if !c.JSON {
		fmt.Fprint(p.out, "would be ")
		e.Decision.render(p.out)
		fmt.Fprintf(p.out, "\nrule set version %d, active rules: %d\n", e.SetVersion, e.ActiveRules)
		w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		for _, r := range e.Rules {
			mark := " "
			if r.Matched {
				mark = "*"
			}
			fmt.Fprintf(w, "%s %s\t%s\t%s\n", mark, r.Name, r.Key, r.Message)
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
