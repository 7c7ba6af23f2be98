// Package redact recognises credentials and hides them in displayed values.
//
// A worked example. Secret says yes to sk_live_abcdef and no to alice@example.com,
// so Text shows the first as (hidden) and the second as it is. The path
// /v1/keys/sk_live_abcdef/rotate shows as /v1/keys/(hidden)/rotate.
package redact
