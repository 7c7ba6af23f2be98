package testenv

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// DocumentedUser creates the user of docs/operations.md and returns the URL for connecting as that
// user. The caller's package must be two folders below the root of the module.
func (s *RedisServer) DocumentedUser(t testing.TB) (url string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ACL SETUSER sluice on >password (.*)$`).FindStringSubmatch(string(doc))
	if m == nil {
		t.Fatal("docs/operations.md has no line ACL SETUSER sluice on >password …")
	}
	grant := append([]string{"ACL", "SETUSER", "sluice", "on", ">password"}, strings.Fields(m[1])...)
	if _, err := command(t.Context(), s.Addr, grant...); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(s.URL(), "redis://", "redis://sluice:password@", 1)
}
