// Package sso authenticates people with an OpenID Connect provider, by the code flow with
// PKCE, and maps their groups to a role of the console.
//
// An example: the provider is https://id.example.com, admins are the group
// sluice-admins, viewers the group staff. AuthURL sends the browser there with
// the state, the nonce and the hash of the verifier of a Challenge. The provider sends it
// back with a code. Exchange sends code and verifier to the provider and receives an ID
// token. It checks the signature, issuer, audience, expiry and nonce of the token. With
// the claim groups ["staff", "sluice-admins"], the identity has the role admin, the
// higher of the two. With ["sales"] it has no role and cannot sign in.
//
// The provider is not contacted before the first sign-in. Its failures end within seconds
// in one of two errors: access.ErrProviderUnavailable if it is unreachable or its
// response is not valid, access.ErrIdentity if the response proves no identity.
package sso
