package access

import (
	"crypto/x509"
	"net/netip"
	"slices"
	"strings"
)

// GatewayProof says how a gateway proves itself. Any one of the three is enough.
type GatewayProof struct {
	// Token accepts the secret of a token with ScopeCheck, or without one a client certificate
	// to which Gate.Certificates gives that scope.
	Token bool
	// Networks are the networks that the gateway connects from. IPv4 networks are not
	// IPv4-mapped.
	Networks []netip.Prefix
	// Certificates are names of client certificates.
	Certificates []string
}

// GatewayCall is what a gateway's question says about its sender. Nothing in it may come
// from a header that a client can set.
type GatewayCall struct {
	// Endpoint is as in Call.
	Endpoint string
	// Token holds every value of the header or metadata Sluice-Token.
	Token []string
	// Peer is the address of the connection, never a forwarded one.
	Peer netip.Addr
	// Chains are the verified chains of the client certificate, as in
	// tls.ConnectionState.
	Chains [][]*x509.Certificate
}

// AdmitGateway returns nil if the call has one of the proofs. It does not depend on
// OpenMode. The error is a *Refusal. To a call without a token that is valid, it does not say which
// proofs there are.
func (g *Gate) AdmitGateway(call GatewayCall, proof *GatewayProof) error {
	if refused := g.admitGateway(call, proof); refused != nil {
		return g.Refuse(call.Endpoint, refused)
	}
	return nil
}

func (g *Gate) admitGateway(call GatewayCall, proof *GatewayProof) *Refusal {
	peer := call.Peer.Unmap().WithZone("")
	if slices.ContainsFunc(proof.Networks, func(n netip.Prefix) bool { return n.Contains(peer) }) ||
		certified(call.Chains, proof.Certificates) {
		return nil
	}
	if len(call.Token) == 0 {
		if token, ok := g.Certificates.find(call.Chains); ok && proof.Token && token.Permits(ScopeCheck) {
			return nil
		}
		return &Refusal{Reason: NoCredentials, Detail: noProof}
	}
	if len(call.Token) > 1 {
		return &Refusal{Reason: UnknownToken, Detail: "Send the header Sluice-Token once."}
	}
	now := g.Now()
	token, refused := g.find(strings.TrimSpace(call.Token[0]), now, ScopeCheck)
	switch {
	case refused != nil:
		return refused
	case proof.Token:
		g.Tokens.Uses.note(token.ID, call.Endpoint, now)
		return nil
	}
	return &Refusal{Reason: NoCredentials, Detail: "The profile accepts no token, and neither the address of the " +
		"connection nor the client certificate is among those of the profile."}
}

// noProof is the same for every profile, and for a name that no profile has: a caller without a credential does not
// learn which profiles exist.
const noProof = "There is no profile of this name, or the gateway did not prove itself as the profile requires: " +
	"by the header Sluice-Token with a token of the scope check, by its client certificate, or by the address of its " +
	"connection."

// certified reports whether a verified certificate has one of the names: as DNS name (in any
// case) or URI, or as common name if it has no other names. Authorities check the other names,
// and some copy the common name from the request of the client.
func certified(chains [][]*x509.Certificate, names []string) bool {
	if len(names) == 0 || len(chains) == 0 || len(chains[0]) == 0 {
		return false
	}
	leaf := chains[0][0] // the same in every chain
	for _, name := range names {
		if name == leaf.Subject.CommonName && name != "" && !hasAlternativeNames(leaf) ||
			slices.ContainsFunc(leaf.DNSNames, func(dns string) bool { return strings.EqualFold(dns, name) }) {
			return true
		}
		for _, uri := range leaf.URIs {
			if uri.String() == name {
				return true
			}
		}
	}
	return false
}
