package rules

import (
	"slices"
	"strings"
)

// registeredMethods are the methods in IANA's registry of HTTP methods, with QUERY.
var registeredMethods = strings.Fields(`ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK
	LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH
	PUT QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

// Warnings are what looks wrong with a normalised rule and yet is allowed, under the
// fields' JSON names: a method that is not registered, which is mostly a slip, but
// may be the caller's own word for a kind of request.
func Warnings(r *Rule) []FieldError {
	if r.Method == nil || !isMethod(*r.Method) || slices.Contains(registeredMethods, *r.Method) {
		return nil
	}
	return []FieldError{{Field: "method", Message: *r.Method + " is not a registered HTTP method. The rule applies only to requests sent with exactly this method."}}
}
