// Package redact tells what looks like a credential, and shows values without
// giving one away.
//
// A worked example. Secret says yes to sk_live_abcdef and no to alice@example.com,
// so Text shows the first as (hidden) and the second as it is. The path
// /v1/keys/sk_live_abcdef/rotate shows as /v1/keys/(hidden)/rotate.
package redact
