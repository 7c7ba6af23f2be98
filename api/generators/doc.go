// Package generators holds a test that generates a client from openapi.yaml with oapi-codegen, compiles it, and sends
// requests to a server with it. docs/clients.md lists what other generators make of the document.
package generators
