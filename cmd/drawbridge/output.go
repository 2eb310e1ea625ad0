package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/operations"
)

func (a *app) printJSON(v any) {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a closed pipe is the reader's choice
}

// table prints aligned columns; the first row is the header.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
}

// ago writes a time as people say it; --json has the exact one.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := time.Since(t)
	if d < 0 {
		return "in " + span(-d)
	}
	if d < time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// quoted shows text from outside on one line, with everything that a terminal
// would obey or hide written out.
func quoted(s string, width int) string {
	shown := []rune(strings.Join(strings.Fields(operations.Visible(s).Shown), " "))
	if len(shown) > width {
		return string(shown[:width-1]) + "…"
	}
	return string(shown)
}

// explain prints an error report: what, why, and what to do next as a command.
func (a *app) explain(r connector.ErrorReport) {
	fmt.Fprintf(a.err, "%s\n  %s\n", r.Code, r.Message)
	for _, f := range r.Faults {
		at := f.Pointer
		if at == "" {
			at = "(the whole input)"
		}
		fmt.Fprintf(a.err, "  %s: %s\n", at, f.Keyword)
	}
	if len(r.Scopes) > 0 {
		fmt.Fprintf(a.err, "  missing scopes: %s\n", strings.Join(r.Scopes, " "))
	}
	if r.RetryAfter > 0 {
		guess := ""
		if r.Guessed {
			guess = " (our guess; the provider did not say)"
		}
		fmt.Fprintf(a.err, "  wait: %s%s\n", span(time.Duration(r.RetryAfter*float64(time.Second))), guess)
	}
	if r.Correlation != "" {
		fmt.Fprintf(a.err, "  correlation id: %s\n", r.Correlation)
	}
	if next := a.advice(r); next != "" {
		fmt.Fprintf(a.err, "  next: %s\n", next)
	}
}

// advice turns the Next axis into a command to paste.
func (a *app) advice(r connector.ErrorReport) string {
	where := a.flags()
	switch r.Next {
	case connector.NextReconnect:
		return "drawbridge connect --provider NAME --url URL" + where
	case connector.NextGrantScopes:
		return "drawbridge connect --provider NAME --scope " + strings.Join(r.Scopes, " --scope ") + where
	case connector.NextApprove:
		if r.Approval != "" {
			return "drawbridge approvals show " + string(r.Approval) + where
		}
	case connector.NextFixInput:
		if len(r.Faults) > 0 {
			return "correct what is listed; drawbridge tools show NAME" + where + " prints the schema"
		}
	case connector.NextLookUpOperation:
		return "drawbridge operations" + where
	case connector.NextWait:
		return "try again later"
	}
	return ""
}

// flags repeats the flags that a pasted command needs to mean the same place.
func (a *app) flags() string {
	s := ""
	if a.data != defaultData() {
		s += " --data " + a.data
	}
	if a.as != defaultPrincipal() {
		s += " --as " + a.as
	}
	return s
}
