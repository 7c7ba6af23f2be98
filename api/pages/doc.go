// Package pages writes what the API says about itself to browsers: a page for each kind of problem, and the reference
// of the API from openapi.yaml. The pages need no script, and nothing from elsewhere.
package pages
