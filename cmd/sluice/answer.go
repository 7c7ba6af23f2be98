package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"sluice/api/client"
	"sluice/rules/chars"
)

// render prints the decision on one line and each limit on a line below it.
func render(a *client.Answer, w io.Writer) {
	fmt.Fprint(w, word(a.Allowed))
	if !a.Allowed {
		fmt.Fprintf(w, " (%d)", a.Status)
	}
	switch {
	case len(a.Limits) == 0:
		fmt.Fprint(w, ": no rule applies")
	case a.Ticket != "":
		fmt.Fprintf(w, ": deferred, ticket %s", a.Ticket)
	case a.Deferred != "":
		fmt.Fprint(w, ": perhaps deferred, do not repeat it without the same request_id")
	case !a.Allowed && a.RetryAfterMS != nil && *a.RetryAfterMS < 0:
		fmt.Fprint(w, ": waiting does not help")
	case !a.Allowed && a.RetryAfterMS != nil:
		fmt.Fprintf(w, ": retry after %s", ms(a.RetryAfterMS))
	case a.DelayMS > 0:
		fmt.Fprintf(w, ": start after %s", ms(&a.DelayMS))
	}
	if a.BanMS != nil {
		fmt.Fprintf(w, " (banned for %s)", ms(a.BanMS))
	}
	if a.Degraded != "" {
		fmt.Fprintf(w, " (degraded: fail mode %s decided)", a.Degraded)
	}
	if a.Overloaded {
		fmt.Fprint(w, " (overloaded: the counter store had no turn for the request, nothing was charged)")
	}
	fmt.Fprintln(w)
	if len(a.Limits) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tKEY\tDECISION\tREMAINING\tUSED\tLIMIT\tRETRY AFTER\tRESET\tMODE")
	for i := range a.Limits {
		l := &a.Limits[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(l.Rule, "-"), chars.Shown(l.Key), decision(l),
			remaining(l), number(l.Used), inForce(l.Limit, l.Burst), ms(l.RetryAfterMS), ms(l.ResetMS), l.Mode)
	}
	_ = t.Flush() // a broken pipe is not an error
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// decision returns the text of the column for a limit. Nothing was decided on a limit that got no turn.
func decision(l *client.LimitAnswer) string {
	decided := word(l.Allowed)
	if l.Overloaded {
		decided = "overloaded"
	}
	if l.ConditionFailed {
		decided += " (condition failed)"
	}
	return decided
}

// remaining is what remains of a limit, "-" of a meter, which has none.
func remaining(l *client.LimitAnswer) string {
	if l.Limit == nil && l.Used != nil {
		return "-"
	}
	return number(l.Remaining)
}

func number(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// inForce renders a limit, followed by the burst of a bucket algorithm. A meter has no limit.
func inForce(limit, burst *int64) string {
	if limit == nil {
		return "no limit"
	}
	if burst == nil {
		return number(limit)
	}
	return fmt.Sprintf("%s, burst %s", number(limit), number(burst))
}

// ms renders milliseconds as the API gives them: -1 means never.
func ms(n *int64) string {
	switch {
	case n == nil:
		return "?"
	case *n < 0:
		return "never"
	}
	return (time.Duration(*n) * time.Millisecond).String()
}
