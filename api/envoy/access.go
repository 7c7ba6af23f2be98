package envoy

import (
	"context"
	"crypto/x509"
	"errors"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"sluice/internal/access"
)

// Metadata with a token.
const (
	metadataAuthorization = "authorization"
	metadataToken         = "sluice-token"
)

// tokenOnly is the proof of a call.
var tokenOnly = access.GatewayProof{Token: true}

// authorize returns the status of a call without sufficient credentials, and what became of it. For the others the
// error is nil.
//
// In open mode every call is admitted, whatever its authority is: Envoy sends the name of its cluster. The guards of
// the HTTP API are against web pages, and a browser cannot send a call of gRPC: it speaks HTTP/2 only with a
// certificate for the name of the page.
func (s *Server) authorize(ctx context.Context, f face) (result string, _ error) {
	return s.admit(f, metadata.ValueFromIncomingContext(ctx, metadataAuthorization),
		metadata.ValueFromIncomingContext(ctx, metadataToken), chainsOf(ctx))
}

// admit is authorize for a call with these credentials: the values of its metadata, and the chains of its connection.
func (s *Server) admit(f face, authorization, token []string, chains [][]*x509.Certificate) (result string, _ error) {
	call := access.Call{Endpoint: origins[f], Authorization: authorization, Host: "localhost", Chains: chains}
	var err error
	if len(authorization) == 0 && len(token) > 0 {
		err = s.gate.AdmitGateway(access.GatewayCall{Endpoint: origins[f], Token: token}, &tokenOnly)
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
	case access.UnknownToken, access.ExpiredToken, access.RevokedToken:
	}
	return result, status.Error(code, detail)
}

// CertifiedConn is a connection whose TLS handshake the listener has performed.
type CertifiedConn interface {
	net.Conn
	// Chains are the verified chains of the client certificate, as in tls.ConnectionState.
	Chains() [][]*x509.Certificate
}

// clientChains is what calls know of the client certificate of their connection.
type clientChains struct{ chains [][]*x509.Certificate }

// AuthType implements credentials.AuthInfo.
func (clientChains) AuthType() string { return "client certificate" }

// chainsOf returns the verified chains of the client certificate of a call.
func chainsOf(ctx context.Context) [][]*x509.Certificate {
	if chains, ok := ctx.Value(chainsKey{}).([][]*x509.Certificate); ok {
		return chains
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(clientChains); ok {
			return info.chains
		}
	}
	return nil
}

// handshaken are credentials of connections after their TLS handshake: they perform none, and pass on the certificate.
type handshaken struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (handshaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := clientChains{}
	if c, ok := conn.(CertifiedConn); ok {
		info.chains = c.Chains()
	}
	return conn, info, nil
}

// Clone implements credentials.TransportCredentials.
func (h handshaken) Clone() credentials.TransportCredentials { return h }
