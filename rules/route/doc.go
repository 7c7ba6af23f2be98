// Package route reads the routes and methods of rules and of requests.
//
// A worked example. Parse reads a rule's route /v1/users/{id}/* as a Pattern with
// the segments v1, users and "" (any segment) and a tail. Normalize turns the path
// /v1/users//42/%63ards?page=2 of a request into /v1/users/42/cards, the form that is compared
// with rules, and the pattern matches it. /v1/users/42/cards;lang=en and https://example.org/v1/users/42/cards have the
// same form. NormalizeMethod turns the method get into GET.
package route
