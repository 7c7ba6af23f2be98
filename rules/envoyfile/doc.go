// Package envoyfile reads the configuration files of envoyproxy/ratelimit as rules, and plans how the stored rules of
// their domains change.
//
// An example: the file
//
//	domain: shop
//	descriptors:
//	  - key: path
//	    value: /pay
//	    descriptors:
//	      - key: user
//	        rate_limit: {unit: minute, requests_per_unit: 5}
//
// becomes one rule of the domain shop with the entries path=/pay and any user: 5 requests per minute and user, in
// windows that begin with each minute of the clock. Its name is shop.path_pay.user and a hash, because a rule's name
// cannot contain the slash.
package envoyfile
