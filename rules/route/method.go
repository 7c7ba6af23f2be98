package route

import (
	"slices"
	"strings"

	"sluice/rules/chars"
)

// MaxMethod is the longest method of a rule, in bytes.
const MaxMethod = 32

// registered are the methods in IANA's registry of HTTP methods, with QUERY.
var registered = strings.Fields(`ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK
	LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH
	PUT QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

// Covers reports whether a rule for a method counts requests of another, both in upper case. A rule for GET counts
// HEAD: servers answer it by the same handler.
func Covers(method, asked string) bool { return method == asked || method == Get && asked == Head }

// Methods that Covers knows.
const (
	Get  = "GET"
	Head = "HEAD"
)

// IsRegistered reports whether a method is in IANA's registry.
func IsRegistered(m string) bool { return slices.Contains(registered, m) }

// IsMethod reports whether s may be the method of a rule: a token of RFC 9110
// section 5.6.2 without lower-case letters.
func IsMethod(s string) bool {
	if s == "" || len(s) > MaxMethod {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || !chars.IsAlnum(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}
