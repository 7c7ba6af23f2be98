// Package route reads the routes and methods of rules and of requests.
//
// A worked example. Parse reads a rule's route /v1/users/{id}/* as a Pattern with
// the segments v1, users and "" (any segment) and a tail. A request for
// /v1/users//42/%63ards?page=2 has the path /v1/users/42/cards once Normalize has
// given it the one spelling that rules are compared with, and the pattern matches
// it. The method get becomes GET.
package route
