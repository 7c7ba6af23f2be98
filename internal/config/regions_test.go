package config

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func regionArgs(more ...string) []string {
	return append([]string{"--redis-url=redis://127.0.0.1:1", "--database-url=postgres://u@127.0.0.1/sluice",
		"--region=eu", "--region-token=slk_hunter2",
		"--regions=eu=https://a:8080|https://b:8080/, us=http://[::1]:8080"}, more...)
}

func TestRegions_NameTheirNodes(t *testing.T) {
	clearEnvironment(t)
	s, err := parse(t, regionArgs()...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.RegionList()
	want := []RegionAddresses{{"eu", []string{"https://a:8080", "https://b:8080"}}, {"us", []string{"http://[::1]:8080"}}}
	if diff := cmp.Diff(want, list); err != nil || diff != "" || !s.HasRegions() ||
		s.RegionTimeout != 500*time.Millisecond {
		t.Errorf("%v, within %s\n%s", err, s.RegionTimeout, diff)
	}
	zone := "http://[fe80::1%25eth0]:8080"
	if s, err = parse(t, slices.Concat(regionArgs(), []string{"--regions=eu=" + zone + "/,us=https://c"})...); err != nil {
		t.Fatal(err)
	}
	if list, err = s.RegionList(); err != nil || list[0].Addresses[0] != zone {
		t.Errorf("an address with a zone: %v, %v", list, err)
	}
	if s, err = parse(t); err != nil || s.HasRegions() {
		t.Errorf("without settings: %v", err)
	}
}

func TestRegions_BadSettingsAreRefusedAndNamed(t *testing.T) {
	clearEnvironment(t)
	good := "eu=https://a:8080,us=https://c:8080"
	many := make([]string, MaxRegions+1)
	for i := range many {
		many[i] = "r" + strings.Repeat("x", i%8) + string(rune('a'+i/8)) + "=https://a" + strconv.Itoa(i)
	}
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"no region":      {[]string{"--regions=" + good, "--region="}, []string{"SLUICE_REGION)", "required"}},
		"unknown region": {[]string{"--regions=" + good, "--region=asia"}, []string{"SLUICE_REGION)", `"asia"`}},
		"twice":          {[]string{"--regions=eu=https://a,eu=https://b"}, []string{"SLUICE_REGIONS)", "eu twice"}},
		"one":            {[]string{"--regions=eu=https://a"}, []string{"SLUICE_REGIONS)", "2 to 50"}},
		"many":           {[]string{"--regions=" + strings.Join(many, ",")}, []string{"SLUICE_REGIONS)", "2 to 50"}},
		"no address":     {[]string{"--regions=eu=,us=https://a"}, []string{"SLUICE_REGIONS)", "one of eu"}},
		"a path":         {[]string{"--regions=eu=https://a/x,us=https://a"}, []string{"SLUICE_REGIONS)", "one of eu"}},
		"region alone": {[]string{"--regions="}, []string{"--region (SLUICE_REGION) requires --regions (SLUICE_REGIONS)",
			"--region-token (SLUICE_REGION_TOKEN) requires --regions (SLUICE_REGIONS)"}},
		"a password": {[]string{"--regions=eu=https://u:hunter2@a,us=https://a"},
			[]string{"SLUICE_REGIONS)", "one of eu"}},
		"another scheme": {[]string{"--regions=eu=https://b,us=redis://a"}, []string{"SLUICE_REGIONS)", "one of us"}},
		"no host":        {[]string{"--regions=eu=https://:8080,us=https://a"}, []string{"SLUICE_REGIONS)", "one of eu"}},
		"a host and a :": {[]string{"--regions=eu=https://b:,us=https://a"}, []string{"SLUICE_REGIONS)", "one of eu"}},
		"no such port":   {[]string{"--regions=eu=https://b:65536,us=https://a"}, []string{"SLUICE_REGIONS)", "one of eu"}},
		"port 0":         {[]string{"--regions=eu=https://b:0,us=https://a"}, []string{"SLUICE_REGIONS)", "one of eu"}},
		"one address for two regions": {[]string{"--regions=eu=https://b|https://a:8080,us=https://a:8080"},
			[]string{"SLUICE_REGIONS)", "eu and us"}},
		"no host at the primary": {[]string{"--primary-url=https://:8080"}, []string{"SLUICE_PRIMARY_URL)", "a host"}},
		"a name with blank":      {[]string{"--regions=e u=https://b,us=https://a"}, []string{"SLUICE_REGIONS)", "entry 1"}},
		"no name":                {[]string{"--regions=eu=https://b,https://a"}, []string{"SLUICE_REGIONS)", "entry 2"}},
		"too hasty": {[]string{"--regions=" + good, "--region-timeout=9ms"},
			[]string{"SLUICE_REGION_TIMEOUT)", "10ms"}},
		"too patient": {[]string{"--regions=" + good, "--region-timeout=5001ms"},
			[]string{"SLUICE_REGION_TIMEOUT)", "5s"}},
		"no token": {[]string{"--regions=" + good, "--region-token="},
			[]string{"SLUICE_REGION_TOKEN)", "--scopes regions"}},
		"a token and a line break": {[]string{"--regions=" + good, "--region-token=hunter2\n"},
			[]string{"SLUICE_REGION_TOKEN)", "line break"}},
		"two tokens": {[]string{"--regions=" + good, "--region-token-file=x"},
			[]string{"(SLUICE_REGION_TOKEN_FILE)"}},
		"a path at the primary": {[]string{"--primary-url=https://a/console"}, []string{"SLUICE_PRIMARY_URL)", "a host"}},
		"a password at the primary": {[]string{"--primary-url=https://u:hunter2@a"},
			[]string{"SLUICE_PRIMARY_URL)", "a host"}},
		"a certificate without its key": {[]string{"--regions=" + good, "--region-cert-file=x"},
			[]string{"SLUICE_REGION_CERT_FILE)", "SLUICE_REGION_KEY_FILE"}},
		"a certificate without TLS": {[]string{"--region-token=", "--region-cert-file=x", "--region-key-file=y"},
			[]string{"SLUICE_REGION_CERT_FILE)", "one of us"}},
		"authorities alone": {[]string{"--regions=", "--region=", "--region-token=", "--region-ca-file=x"},
			[]string{"SLUICE_REGIONS)", "requires --regions"}},
		"embedded": {[]string{"--regions=" + good, "--redis-url="},
			[]string{"SLUICE_REGIONS)", "REDIS_URL", "memory"}},
		"a database of its own": {[]string{"--regions=" + good, "--database-url="},
			[]string{"SLUICE_REGIONS)", "DATABASE_URL", "one Postgres"}},
	} {
		_, err := parse(t, slices.Concat(regionArgs(), tt.args)...)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v, want %q and no secret", name, err, want)
			}
		}
	}
}
