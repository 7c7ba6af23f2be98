// Package web is the console: the pages on which ops people see what is limited
// and change it. Pages are rendered here, from templates in web/view; every edit
// works without JavaScript. One action a file, and routes.go lists them all.
//
// An action has one shape: authorise (the table says by which role, wrap does
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
