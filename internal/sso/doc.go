// Package sso asks a provider of OpenID Connect who someone is, by the code flow
// with PKCE, and turns the groups it answers with into a role of the console.
//
// A worked example. The provider is https://id.example.com, admins are the group
// sluice-admins, viewers the group staff. AuthURL leads the browser there with the
// state, the nonce and the hash of the verifier of a Challenge. The provider sends
// it back with a code. Exchange gives code and verifier to the provider and gets an
// ID token; its signature, issuer, audience, expiry and nonce are checked, and its
// claim groups is ["staff", "sluice-admins"]: the identity has the role admin, the
// higher of the two. With ["sales"] it has none, and nobody is let in.
//
// Nothing is asked of the provider before the first attempt, and whatever it does
// wrong ends in one of two errors, within seconds: access.ErrProviderUnavailable when it
// cannot be asked, access.ErrIdentity when its answer proves nothing.
package sso
