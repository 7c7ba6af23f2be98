// Package ssotest is a provider of OpenID Connect on a loopback address, for tests: it answers as the standard says,
// unless the test changes an answer.
//
// A worked example. p := ssotest.New() has one person, ada in the group admins. A browser that follows p's discovery
// sees a page with one button. Pressing the button sends the browser back with a code, and p.Approve does the same
// without a browser. After p.Spoil(func(t *ssotest.Token) { t.Claims["aud"] = "other" }), p signs tokens for another
// client.
package ssotest
