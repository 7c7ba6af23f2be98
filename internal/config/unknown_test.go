package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnknown_NamesTheVariableAndTheNearestSetting(t *testing.T) {
	const none = " is not a setting and has no effect"
	for variable, want := range map[string]string{
		"SLUICE_LISTN=hunter2":                   "SLUICE_LISTN" + none + "; did you mean SLUICE_LISTEN?",
		"SLUICE_TRUSTED_PROXY=hunter2":           "SLUICE_TRUSTED_PROXY" + none + "; did you mean SLUICE_TRUSTED_PROXIES?",
		"SLUICE_KAFKA_PASWORD=hunter2":           "SLUICE_KAFKA_PASWORD" + none + "; did you mean SLUICE_KAFKA_PASSWORD?",
		"SLUICE_MAXIMAL_NUMBER_OF_TREES=hunter2": "SLUICE_MAXIMAL_NUMBER_OF_TREES" + none,
		"SLUICE_PORT=9000":                       "SLUICE_PORT" + none,
		"SLUICE_=hunter2":                        "SLUICE_" + none,
	} {
		if diff := cmp.Diff([]string{want}, Unknown([]string{"PATH=/bin", variable, variable})); diff != "" {
			t.Errorf("%s: %s", variable, diff)
		}
	}
}

func TestUnknown_LeavesOutWhatACommandReads(t *testing.T) {
	environ := []string{"SLUICEGATE=1", "HOME=/root", "SLUICE_SERVER=x", "SLUICE_TOKEN=x", "SLUICE_TOKEN_FILE=x"}
	for _, s := range Settings(Serve{}, Client{}) {
		environ = append(environ, s.Env+"=x")
	}
	if got := Unknown(environ); len(got) > 0 {
		t.Error(got)
	}
}

// Kubernetes sets these in every pod of the namespace of a service named sluice.
func TestUnknown_LeavesOutTheServiceLinksOfKubernetes(t *testing.T) {
	links := []string{"SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_SERVICE_PORT=8080", "SLUICE_SERVICE_PORT_HTTP=8080",
		"SLUICE_PORT=tcp://10.0.0.1:8080", "SLUICE_PORT_8080_TCP=tcp://10.0.0.1:8080", "SLUICE_PORT_8080_TCP_PROTO=tcp",
		"SLUICE_PORT_8080_TCP_PORT=8080", "SLUICE_PORT_8080_TCP_ADDR=10.0.0.1", "SLUICE_GRPC_SERVICE_HOST=10.0.0.2"}
	if got := Unknown(append(links, "KUBERNETES_SERVICE_HOST=10.0.0.3")); len(got) > 0 {
		t.Error(got)
	}
	if got := Unknown(links); len(got) != len(links) {
		t.Errorf("without Kubernetes: %q", got)
	}
}

func TestUnknown_ReportsALimitedNumber(t *testing.T) {
	var environ []string
	for i := range 30 {
		environ = append(environ, fmt.Sprintf("SLUICE_X%02d=1", i))
	}
	if got := Unknown(environ); len(got) != 20 || !strings.HasPrefix(got[19], "SLUICE_X19 ") {
		t.Errorf("%d: %q", len(got), got)
	}
}
