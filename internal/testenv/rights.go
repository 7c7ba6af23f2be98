package testenv

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// DocumentedUser makes the user that docs/operations.md tells operators to make,
// and gives the URL with which it connects. The caller's package lies two folders
// below the root of the module.
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
