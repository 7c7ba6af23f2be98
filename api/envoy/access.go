package envoy

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/internal/access"
)

// Metadata with a token.
const (
	metadataAuthorization = "authorization"
	metadataToken         = "sluice-token"
)

// Reasons to refuse a call: values of a metric label.
var refusals = map[access.Reason]string{
	access.NoCredentials: "no_credentials", access.BadCredentials: "bad_credentials",
	access.LacksScope: "lacks_scope", access.NotOpen: "not_open", access.NotLoaded: "not_loaded",
}

// Refusals are all values of the label reason.
func Refusals() []string {
	words := make([]string, 0, len(refusals))
	for reason := access.NoCredentials; reason <= access.NotLoaded; reason++ {
		words = append(words, refusals[reason])
	}
	return words
}

// tokenOnly is the proof of a call.
var tokenOnly = access.GatewayProof{Token: true}

// authorize returns the status of a call without sufficient credentials, and what became of it. For the others the
// error is nil.
//
// In open mode every call is admitted, whatever its authority is: Envoy sends the name of its cluster. The guards of
// the HTTP API are against web pages, and a browser cannot send a call of gRPC: it speaks HTTP/2 only with a
// certificate for the name of the page.
func (s *Server) authorize(ctx context.Context) (result string, _ error) {
	call := access.Call{Authorization: metadata.ValueFromIncomingContext(ctx, metadataAuthorization), Host: "localhost"}
	var err error
	if token := metadata.ValueFromIncomingContext(ctx, metadataToken); len(call.Authorization) == 0 && len(token) > 0 {
		err = s.gate.AdmitGateway(access.GatewayCall{Token: token}, &tokenOnly)
	} else {
		_, err = s.gate.Admit(call, access.ScopeCheck)
	}
	if err == nil {
		return "", nil
	}
	var refused *access.Refusal
	if !errors.As(err, &refused) {
		return resultError, status.Error(codes.Internal, "internal error")
	}
	s.deps.Observe.CountRefusal(refusals[refused.Reason])
	result = resultRefused
	code, detail := codes.Unauthenticated, refused.Detail
	switch refused.Reason {
	case access.LacksScope, access.NotOpen:
		code = codes.PermissionDenied
	case access.NotLoaded:
		result, code = resultNotReady, codes.Unavailable
	case access.NoCredentials:
		detail = "Send the metadata authorization: Bearer TOKEN, or sluice-token: TOKEN. " +
			"Create a token with sluice token create."
	case access.BadCredentials:
	}
	return result, status.Error(code, detail)
}
