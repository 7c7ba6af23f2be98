package envoy

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
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

// openFaces says for each face whether it needs no credential in open mode.
var openFaces = map[face]bool{
	rateLimit:     access.OpenCall(ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName),
	authorization: access.OpenCall(authv3.Authorization_Check_FullMethodName),
	quotas:        access.OpenCall(quotav3.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName),
}

// sender is what the metadata and the connection of a call say about its sender.
type sender struct {
	authorization, token []string // the values of the metadata
	authority            string
	forwarded            bool // it has metadata that proxies add
	browser              bool // it has metadata that browsers add
	chains               [][]*x509.Certificate
}

// identity is a hash. It is equal for all calls with the same token or client certificate, and for all calls without
// credentials.
func (s *sender) identity() string {
	h := sha256.New()
	switch {
	case len(s.authorization) > 0: // Bearer and a token
		for _, word := range strings.Fields(s.authorization[0]) {
			h.Reset()
			h.Write([]byte(word))
		}
	case len(s.token) > 0:
		h.Write([]byte(strings.TrimSpace(s.token[0])))
	case len(s.chains) > 0 && len(s.chains[0]) > 0:
		h.Write(s.chains[0][0].Raw)
	}
	return string(h.Sum(nil))
}

// field takes up a field of metadata, but not the authority. The name is in lower case.
func (s *sender) field(name, value string) {
	switch name {
	case metadataAuthorization:
		s.authorization = append(s.authorization, value)
	case metadataToken:
		s.token = append(s.token, value)
	case "origin", "sec-fetch-site":
		s.browser = true
	default:
		s.forwarded = s.forwarded || forwarding[name]
	}
}

// forwarding are the names of the metadata that proxies add to forwarded calls.
var forwarding = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range access.ForwardingHeaders() {
		names[strings.ToLower(name)] = true
	}
	return names
}()

// senderOf describes the sender of a call that grpc-go has read.
func senderOf(ctx context.Context) *sender {
	s := &sender{chains: chainsOf(ctx), authorization: metadata.ValueFromIncomingContext(ctx, metadataAuthorization),
		token: metadata.ValueFromIncomingContext(ctx, metadataToken)}
	if len(s.authorization) > 0 || len(s.token) > 0 { // the rest matters only without
		return s
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for name := range md {
		s.field(name, "")
	}
	if authority := md[":authority"]; len(authority) > 0 {
		s.authority = authority[0]
	}
	return s
}

// authorize returns a status as error, and the result to count, for a call without sufficient credentials. For other
// calls the error is nil. It judges the authority and the metadata of proxies as the HTTP API judges Host and headers.
func (s *Server) authorize(f face, from *sender) (result string, _ error) {
	authorization, token := from.authorization, from.token
	call := access.Call{Endpoint: origins[f], Authorization: authorization, Host: from.authority,
		Forwarded: from.forwarded, OtherSite: from.browser, Open: openFaces[f], Chains: from.chains}
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
