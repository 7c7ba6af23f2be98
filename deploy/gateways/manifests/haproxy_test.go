package manifests

import (
	"os"
	"strings"
	"testing"
)

// HAProxy 3.1 and newer warn unless this setting stands before lua-load. Older versions refuse it.
func TestHAProxy_SaysHowLuaReadsBooleans(t *testing.T) {
	conf, err := os.ReadFile("../haproxy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(conf)
	for _, want := range []string{".if version_atleast(3.1)\n", "\ttune.lua.bool-sample-conversion normal", "\n.endif\n",
		"\tlua-load sluice.lua\n"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or not where it belongs", want)
		}
		rest = after
	}
}
