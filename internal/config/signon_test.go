package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
)

// signOn are settings of single sign-on that are valid, with others in their place.
func signOn(others ...string) []string {
	args := []string{
		"--oidc-issuer=https://id.example.com/realms/ops", "--console-url=https://sluice.example.com",
		"--oidc-client-id=sluice",
		"--oidc-admin-groups=sluice-admins",
	}
	for _, other := range others {
		flag, _, _ := strings.Cut(other, "=")
		args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
	}
	return append(args, others...)
}

func TestSignOn_GroupsLeadToRoles(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("SLUICE_OIDC_VIEWER_GROUPS", `staff, on-call,cn=ops\,dc=example,`)
	s, err := parse(t, signOn("--oidc-scopes=openid, groups")...)
	if err != nil {
		t.Fatal(err)
	}
	want := map[access.Role][]string{access.RoleAdmin: {"sluice-admins"}, access.RoleEditor: nil,
		access.RoleViewer: {"staff", "on-call", "cn=ops,dc=example"}}
	if diff := cmp.Diff(want, s.OIDCGroups()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"openid", "groups"}, s.OIDCScopeList()); diff != "" {
		t.Error(diff)
	}
	if !s.SignsOn() {
		t.Error("there is no single sign-on")
	}
	clearEnvironment(t)
	if s, err := parse(t); err != nil || s.SignsOn() {
		t.Errorf("without an issuer there is: %v", err)
	}
}

func TestSignOn_WhatIsMissingOrUnsafeIsNamed(t *testing.T) {
	clearEnvironment(t)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"plain http":         {signOn("--oidc-issuer=http://id.example.com"), "SLUICE_OIDC_ISSUER"},
		"no address":         {signOn("--oidc-issuer=id.example.com"), "SLUICE_OIDC_ISSUER"},
		"a query":            {signOn("--oidc-issuer=https://id.example.com?x=1"), "SLUICE_OIDC_ISSUER"},
		"a password":         {signOn("--oidc-issuer=https://u:hunter2@id.example.com"), "SLUICE_OIDC_ISSUER"},
		"no console address": {signOn("--console-url="), "SLUICE_CONSOLE_URL"},
		"a plain console":    {signOn("--console-url=http://sluice.example.com"), "SLUICE_CONSOLE_URL"},
		"no client":          {signOn("--oidc-client-id="), "SLUICE_OIDC_CLIENT_ID"},
		"no group":           {signOn("--oidc-admin-groups="), "SLUICE_OIDC_ADMIN_GROUPS"},
		"no claim":           {signOn("--oidc-groups-claim="), "SLUICE_OIDC_GROUPS_CLAIM"},
		"no name":            {signOn("--oidc-name="), "SLUICE_OIDC_NAME"},
		"a long name":        {signOn("--oidc-name=" + strings.Repeat("x", 41)), "SLUICE_OIDC_NAME"},
		"scopes in one":      {signOn("--oidc-scopes=openid profile"), "SLUICE_OIDC_SCOPES"},
		"groups alone":       {[]string{"--oidc-viewer-groups=staff"}, "SLUICE_OIDC_ISSUER"},
		"a secret alone":     {[]string{"--oidc-client-secret=hunter2"}, "SLUICE_OIDC_ISSUER"},
	} {
		if _, err := parse(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s named", name, err, tt.want)
		}
	}
	for _, issuer := range []string{"http://127.0.0.1:9000", "http://localhost:9000/realms/x", "http://[::1]:9000",
		"https://id.example.com/"} {
		if _, err := parse(t, signOn("--oidc-issuer="+issuer, "--console-url=http://127.0.0.1:8080")...); err != nil {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

func TestSignOn_TheSecretIsNotShown(t *testing.T) {
	clearEnvironment(t)
	s, err := parse(t, signOn("--oidc-client-secret=hunter2")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Values(s) {
		if strings.Contains(v.Value, "hunter2") || v.Flag == "--oidc-client-secret" && v.Value != hidden {
			t.Errorf("%s shows %q", v.Flag, v.Value)
		}
	}
}
