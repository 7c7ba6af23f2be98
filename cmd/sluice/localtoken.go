package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"

	"sluice/internal/config"
	"sluice/internal/localtoken"
)

// localSecret returns the local token of the data directory of a command that has no other credential, if its server is
// at a loopback address, and otherwise "". A file that somebody else could have read or written is not used, and log
// says so.
func localSecret(ctx context.Context, c *config.Client, log *slog.Logger) string {
	if c.DataDir == "" || c.Token.IsSet() || c.ClientCertFile != "" || !onThisMachine(ctx, c.Server) {
		return ""
	}
	secret, err := localtoken.Read(c.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the local token is not used", "error", err)
	}
	return secret
}

// onThisMachine reports whether the server of a URL has a loopback address: one in digits, or localhost if that name
// has no other addresses. The client sends neither to a proxy, and follows no redirects.
func onThisMachine(ctx context.Context, server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	if u.Hostname() != "localhost" {
		ip, err := netip.ParseAddr(u.Hostname())
		return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", "localhost")
	for _, ip := range found {
		if !ip.Unmap().IsLoopback() {
			return false
		}
	}
	return err == nil && len(found) > 0
}
