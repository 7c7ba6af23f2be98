// Package api is the HTTP face: it carries questions to the engine and answers
// back, and serves the CRUD of rules. The engine is api/decide; what this face has
// in common with others (client headers, denial bodies, problem documents) is
// api/reply.
//
// The documents that it exchanges are in openapi.yaml, and tests hold it to them.
package api
