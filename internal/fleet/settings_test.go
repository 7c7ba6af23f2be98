package fleet_test

import (
	"maps"
	"strings"
	"testing"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

func TestCompareSettings_StoresOnlyWhatIsMissing(t *testing.T) {
	c := client(t, testenv.Redis(t).URL())
	for _, step := range []struct{ own, want map[string]string }{
		{map[string]string{"a": "1"}, map[string]string{"a": "1"}},
		{map[string]string{"a": "2", "b": "3"}, map[string]string{"a": "1", "b": "3"}},
	} {
		if got, err := fleet.CompareSettings(t.Context(), c, "sl:", step.own); err != nil || !maps.Equal(got, step.want) {
			t.Errorf("%v: got %v, %v; want %v", step.own, got, err, step.want)
		}
	}
}

func TestCompareSettings_ReadsWhereItMayNotWrite(t *testing.T) {
	server := testenv.Redis(t)
	admin := client(t, server.URL())
	for _, args := range [][]any{
		{"HSET", "sl:settings", "names", "plain"},
		{"ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@all", "-hsetnx"},
		{"CONFIG", "SET", "maxmemory", "1"}, // full: writes are refused
	} {
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	for name, url := range map[string]string{
		"a full server":       server.URL(),
		"a user who may read": strings.Replace(server.URL(), "redis://", "redis://reader:pw@", 1),
	} {
		got, err := fleet.CompareSettings(t.Context(), client(t, url), "sl:", map[string]string{"names": "packed"})
		if err != nil || got["names"] != "plain" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
