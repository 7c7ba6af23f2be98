// Package ssotest is a provider of OpenID Connect on a loopback address, for
// tests: it answers as the standard says until it is told to answer otherwise.
//
// A worked example. p := ssotest.New() has one person, ada in the group admins.
// A browser that goes to where p's discovery leads sees a page with one button; to
// press it sends the browser back with a code, and p.Approve does the same without a
// browser. p.Spoil(func(t *ssotest.Token) { t.Claims["aud"] = "other" }) makes it
// sign tokens for another client from then on.
package ssotest
