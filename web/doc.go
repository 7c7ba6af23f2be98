// Package web is the console: the pages on which ops people see what is limited
// and change it. Every edit works without JavaScript. The package wires the areas
// into one handler; each area has its handlers, its pages and their models side by
// side, one action a file:
//
//	signin     in and out: password, single sign-on, the link of the first start
//	overview   the home page, hot keys, settings
//	rulepages  rules, their overrides, pools, fail modes
//	inspect    denials, explained requests, single keys
//	people     accounts, links to choose a password, tokens, the audit log
//	transfer   rules out and in, overrides in
//
// kit is what every handler needs: the visit, its session, the guard of signing in,
// the frame, errors, forms, streams. view is what the pages of several areas show.
// Imports run one way: web, areas, kit, view; areas do not know each other.
//
// An action has one shape: authorise (the route says by which role, the kit does
// it), bind the form, validate, act, and then redirect with 303 or show the form
// again with 422 and what was typed. A page is rendered to a buffer before the
// first byte is written, so a page that fails half way is an error page.
//
// A worked example. POST /console/sign-in with name=ada and a wrong password:
// the cross-origin check lets it through because the browser says same-origin;
// three limits are taken together (5 attempts in 5 minutes for ada from this
// address, 50 in 15 minutes for ada, 30 in 15 minutes for the address); the
// password is hashed and found different; the form is shown again with 422,
// the name still in it. The sixth attempt gets 429 and the wait, and no hashing.
//
// The console knows the rest of the program only through the interfaces of Deps.
package web

//go:generate go tool templ generate -include-version=false
