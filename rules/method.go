package rules

import "sluice/rules/route"

// Warnings lists what looks wrong in a normalised rule but is allowed, under the fields' JSON
// names: an unregistered method is usually a typing error, but can also be the caller's own word.
func Warnings(r *Rule) []FieldError {
	if r.Method == nil || !route.IsMethod(*r.Method) || route.IsRegistered(*r.Method) {
		return nil
	}
	return []FieldError{{Field: "method", Message: *r.Method +
		" is not a registered HTTP method. The rule applies only to requests sent with exactly this method."}}
}
