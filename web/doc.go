// Package web is the console: the pages on which operators see and change what is limited. Every edit works without
// JavaScript. The package wires the areas into one handler. Each area keeps its handlers, pages and models side by
// side, one action a file:
//
//	signin     sign-in and sign-out: password, single sign-on, the link of the first start
//	overview   the home page, hot keys, settings
//	rulelist   the list of rules, edits of many, fail modes
//	rulepage   one rule: its figures, history, overrides; what changes its state
//	ruleedit   the editor of a rule, with a preview
//	replay     edited rules on recorded traffic, suggested limits
//	pools      the capacity that rules share
//	inspect    denials, explained requests, single keys
//	people     accounts, invite links, tokens, the audit log
//	transfer   export and import of rules, import of overrides
//
// kit holds what every handler needs: the visit, its session, limits on sign-in attempts, the frame, errors, forms
// and streams. bind reads and fills in inputs. view holds what the pages of several areas show. Imports run one way:
// web, areas, kit, view. Areas do not import each other: web hands the editor its replays.
//
// All actions have the same shape: authorize (the route names the role, the kit checks it), bind the form, validate,
// act, and then redirect with 303, or show the form again with 422 and what was typed. A page is rendered to a buffer
// before the first byte is written, so a page that fails halfway becomes an error page.
//
// A worked example. POST /console/sign-in with name=ada and a wrong password: the cross-origin check lets it through
// because the browser says same-origin; three limits are taken together (5 attempts in 5 minutes for ada from this
// address, 50 in 15 minutes for ada, 30 in 15 minutes for the address); the password is hashed and does not match;
// the form is shown again with 422 and the name. The sixth attempt gets 429 with the wait, and nothing is hashed.
//
// The console reaches the rest of the program only through the interfaces of Deps.
package web

//go:generate go tool templ generate -include-version=false
