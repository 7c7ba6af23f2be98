package config

import (
	"strings"
	"testing"
)

func TestAlerts_NameWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--webhook-allow=hooks.corp.example,10.1.0.0/16,fd00::1", ""},
		{"--webhook-allow=https://hooks.corp.example", "SLUICE_WEBHOOK_ALLOW"},
		{"--webhook-allow=10.1.0.0/33", "SLUICE_WEBHOOK_ALLOW"},
		{"--webhook-allow=*.corp.example", "SLUICE_WEBHOOK_ALLOW"},
	} {
		clearEnvironment(t)
		_, err := parse(t, tt.args)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error that names %q", tt.args, err, tt.want)
		}
	}
}
