package rules

import "sluice/rules/route"

// Warnings are what looks wrong with a normalised rule and yet is allowed, under the
// fields' JSON names: a method that is not registered, which is mostly a slip, but
// may be the caller's own word for a kind of request.
func Warnings(r *Rule) []FieldError {
	if r.Method == nil || !route.IsMethod(*r.Method) || route.IsRegistered(*r.Method) {
		return nil
	}
	return []FieldError{{Field: "method", Message: *r.Method + " is not a registered HTTP method. The rule applies only to requests sent with exactly this method."}}
}
