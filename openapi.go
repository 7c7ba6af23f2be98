// Package sluice holds the service's OpenAPI document, because embedding cannot
// climb folders.
package sluice

import _ "embed"

// OpenAPI is openapi.yaml exactly as committed. It must not be changed.
//
//go:embed openapi.yaml
var OpenAPI []byte
