package app

import (
	"fmt"
	"io"
	"net"
	"strings"

	"sluice/internal/access"
	"sluice/internal/config"
)

// printGreeting prints the addresses of the server and a command that sends a check. grpc is nil without gRPC.
// localFile is the path of the file with the local token, or "" if there is none.
func printGreeting(w io.Writer, cfg *config.Serve, addr, grpc net.Addr, keyring *access.Current, localFile string) {
	places := "rules in " + cfg.Database()
	if cfg.Postgres() {
		places = "rules in Postgres"
	}
	if cfg.Redis() {
		places += ", counters in Redis"
	} else {
		places += ", counters in this process"
	}
	authorize := ""
	if !keyring.Load().Open() || !cfg.Loopback() || cfg.TLSClientScopes != "" {
		authorize = " \\\n    -H \"Authorization: Bearer $SLUICE_TOKEN\""
	}
	url := localURL(cfg, addr)
	everythingElse := ""
	switch {
	case authorize != "":
	case localFile == "":
		everythingElse = "Only checks need no token. Create one for the rest with sluice token create.\n\n"
	default:
		everythingElse = fmt.Sprintf(`Only checks need no token. This file has one for the rest, until you create the first:

  curl -s %s/ratelimit/rules -H "Authorization: Bearer $(cat %s)"

`, url, shellQuote(localFile))
	}
	forEnvoy := ""
	if grpc != nil {
		forEnvoy = "Envoy's rate limit and authorisation services (gRPC) are on " + localURLHost(grpc) + "\n"
	}
	fmt.Fprintf(w, `sluice is listening on %[1]s (%[2]s)
%[4]s
Run this six times. Five requests are allowed and the sixth is denied:

  curl -s %[1]s/ratelimit/check -H 'Content-Type: application/json'%[3]s \
    -d '{"key": "user:42", "limit": 5, "window_ms": 60000}'

%[5]sAPI reference: %[1]s/docs

`, url, places, authorize, forEnvoy, everythingElse)
}

// shellQuote returns a path as one word of a shell.
func shellQuote(path string) string {
	const plain = "/._-+:@%,ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	if strings.Trim(path, plain) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// printConsoleURL prints the URL of the console, or, while there is no account, the
// sign-in link to create the first one.
func printConsoleURL(w io.Writer, base, welcome string) {
	if welcome == "" {
		fmt.Fprintf(w, "Console: %s/console\n\n", base)
		return
	}
	fmt.Fprintf(w, `Sign-in link for the console (one use, valid for 1 hour):

  %s%s

`, base, welcome)
}

// localURL returns the URL of the server on this machine.
func localURL(cfg *config.Serve, addr net.Addr) string {
	if cfg.TLS() {
		return "https://" + localURLHost(addr)
	}
	return "http://" + localURLHost(addr)
}

// localURLHost returns the host and port of addr for a URL on this machine.
func localURLHost(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}
