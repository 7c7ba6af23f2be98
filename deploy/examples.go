package deploy

import "embed"

// Recipes are the files of rules in recipes.
//
//go:embed recipes/*.yaml
var Recipes embed.FS

// Gateways contains the configurations of gateways that ask Sluice, from the folder gateways.
//
//go:embed gateways/nginx/nginx.conf gateways/caddy/Caddyfile gateways/haproxy/haproxy.cfg
//go:embed gateways/traefik/dynamic.yaml gateways/envoy/envoy.yaml gateways/apisix/apisix.yaml gateways/kong/kong.yaml
var Gateways embed.FS
