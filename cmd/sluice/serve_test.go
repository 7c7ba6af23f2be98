package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sluice/internal/config"
)

func TestServe_WarnsOfUnknownVariables(t *testing.T) {
	r := launch(t, []string{"SLUICE_LISTN=hunter2"}, serveArgs(dataDir(t))...)
	r.terminate()
	if log := r.errs.String(); !strings.Contains(log, "did you mean SLUICE_LISTEN?") || strings.Contains(log, "hunter2") {
		t.Error(log)
	}
}

// Every command's variable is known to sluice serve, which may run in the same environment.
func TestServe_WarnsOfNoVariableThatACommandReads(t *testing.T) {
	parser, err := kong.New(&cli{}, config.SecretFlags())
	if err != nil {
		t.Fatal(err)
	}
	var environ []string
	if err := kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			for _, name := range f.Tag.Envs {
				environ = append(environ, name+"=x")
			}
		}
		return next(nil)
	}); err != nil {
		t.Fatal(err)
	}
	if unknown := config.Unknown(environ); len(environ) == 0 || len(unknown) > 0 {
		t.Errorf("%d variables, unknown: %q", len(environ), unknown)
	}
}
