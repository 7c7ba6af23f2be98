// Package api is the HTTP API: it decodes requests, lets api/decide decide them, encodes
// the results, and creates, reads, updates and deletes rules. Package api/reply has what
// it shares with other faces: client headers, denial bodies and problem documents.
//
// openapi.yaml describes the API, and tests compare the two.
package api
