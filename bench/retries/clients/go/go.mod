// The Go clients of make measure-clients, in a module of their own, so that nothing else depends on them.
module sluice/bench/retries/clients

go 1.26.0

toolchain go1.26.11

require (
	github.com/go-resty/resty/v2 v2.17.2
	github.com/hashicorp/go-retryablehttp v0.7.8
	resty.dev/v3 v3.0.0-rc.4
)

require (
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	golang.org/x/net v0.43.0 // indirect
)
