package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/match"
)

// checker collects the problems of a configuration. Each names its setting.
type checker struct{ errs []error }

func (c *checker) fail(flag, env, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("--%s (%s) %s", flag, env, fmt.Sprintf(format, args...)))
}

func (c *checker) within(flag, env string, got, least, most time.Duration) {
	if got < least || got > most {
		c.fail(flag, env, "must be between %s and %s, not %s", least, most, got)
	}
}

func (c *checker) between(flag, env string, got, least, most int) {
	if got < least || got > most {
		c.fail(flag, env, "must be between %d and %d, not %d", least, most, got)
	}
}

func (c *checker) oneOf(flag, env, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		c.fail(flag, env, "must be %s, not %q", strings.Join(allowed, " or "), got)
	}
}

// Validate reports every bad setting at once, each by its flag and environment
// variable. No message repeats a value that may hold a password.
func (s *Serve) Validate() error {
	var c checker
	if _, err := hostOf(s.Listen); err != nil {
		c.fail("listen", "SLUICE_LISTEN", "%s", err)
	}
	if _, err := s.TrustedNetworks(); err != nil {
		c.fail("trusted-proxies", "SLUICE_TRUSTED_PROXIES", "%s", err)
	}
	s.checkTLS(&c)
	s.GRPC.check(&c)
	c.oneOf("reset-header", "SLUICE_RESET_HEADER", s.ResetHeader, "epoch", "delta")
	c.within("drain-delay", "SLUICE_DRAIN_DELAY", s.DrainDelay, 0, 5*time.Minute)
	if err := s.Storage.Validate(); err != nil {
		c.errs = append(c.errs, err)
	}
	s.Counters.check(&c)
	s.Regions.check(&c, s.Redis(), s.Postgres(), s.PrimaryURL != "")
	c.between("ipv4-prefix", "SLUICE_IPV4_PREFIX", s.IPv4Prefix, 1, 32)
	c.between("ipv6-prefix", "SLUICE_IPV6_PREFIX", s.IPv6Prefix, 1, 128)
	if _, err := match.ParseNAT64(s.NAT64Prefixes); err != nil {
		c.fail("nat64-prefixes", "SLUICE_NAT64_PREFIXES", "%s", err)
	}
	c.oneOf("route-case", "SLUICE_ROUTE_CASE", s.RouteCase, CaseKeep, CaseFold)
	if _, err := rules.ParseFailDefaults(s.FailDefaults); err != nil {
		c.fail("fail-defaults", "SLUICE_FAIL_DEFAULTS", "%s", err)
	}
	s.Stats.check(&c)
	s.Records.check(&c)
	s.Kafka.check(&c, s.RecordsToKafka())
	s.Alerts.check(&c)
	s.Console.check(&c)
	s.SignOn.check(&c, s.ConsoleURL)
	s.Tuning.check(&c, s.HasRegions())
	c.oneOf("log-level", "SLUICE_LOG_LEVEL", s.LogLevel, "debug", "info", "warn", "error")
	c.oneOf("log-format", "SLUICE_LOG_FORMAT", s.LogFormat, "text", "json")
	return errors.Join(c.errs...)
}

func (g *GRPC) check(c *checker) {
	if g.GRPCListen != "" {
		if _, err := hostOf(g.GRPCListen); err != nil {
			c.fail("grpc-listen", "SLUICE_GRPC_LISTEN", "%s", err)
		}
	}
}

// GRPCLoopback reports whether only this machine can reach the gRPC listener, or there is none.
func (g *GRPC) GRPCLoopback() bool { return g.GRPCListen == "" || loopback(g.GRPCListen) }

var keyPrefix = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,32}$`)

// Redis reports whether the counters are in Redis, not in the memory of this process.
func (k *Counters) Redis() bool { return k.RedisURL.IsSet() }

func (k *Counters) check(c *checker) {
	c.secrets(k)
	if !keyPrefix.MatchString(k.KeyPrefix) {
		c.fail("key-prefix", "SLUICE_KEY_PREFIX", "must be 1 to 32 letters, digits and ._:-")
	}
	c.within("store-timeout", "SLUICE_STORE_TIMEOUT", k.StoreTimeout, time.Millisecond, 10*time.Second)
}

// isOrigin reports whether a text is an http or https URL of a host and nothing else.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	return err == nil && port > 0 && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil &&
		strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

func (k *Console) check(c *checker) {
	if k.ConsoleURL != "" && !isOrigin(k.ConsoleURL) {
		c.fail("console-url", "SLUICE_CONSOLE_URL", "must be a scheme and a host, as in https://sluice.example.com")
	}
	if !k.Console {
		return
	}
	c.within("session-idle", "SLUICE_SESSION_IDLE", k.SessionIdle, time.Minute, 168*time.Hour)
}

func (s *Stats) check(c *checker) {
	if !chars.IsName(s.TenantAttribute) {
		c.fail("tenant-attribute", "SLUICE_TENANT_ATTRIBUTE", "must have 1 to 64 letters, digits, _, . or -")
	}
}

// check accepts a zero timeout of regions if there are none.
func (t *Tuning) check(c *checker, regions bool) {
	c.oneOf("loop", "SLUICE_LOOP", t.Loop, "on", "off")
	if t.MaxKeys != 0 {
		c.between("max-keys", "SLUICE_MAX_KEYS", int(t.MaxKeys), 1000, 1_000_000_000)
	}
	c.oneOf("deny-cache", "SLUICE_DENY_CACHE", t.DenyCache, "on", "exact", "off")
	if regions || t.RegionTimeout != 0 {
		c.within("region-timeout", "SLUICE_REGION_TIMEOUT", t.RegionTimeout, 10*time.Millisecond, 5*time.Second)
	}
	c.between("stats-days", "SLUICE_STATS_DAYS", t.StatsDays, 1, 3650)
}

// Validate checks what can be checked without a connection.
func (s *Storage) Validate() error {
	var c checker
	if s.DataDir == "" {
		c.fail("data-dir", "SLUICE_DATA_DIR", "must name a folder")
	}
	c.secrets(s)
	if s.DatabaseURL.Value != "" && !isPostgres(s.DatabaseURL.Value) {
		c.fail("database-url", "DATABASE_URL",
			"must begin with postgres:// or postgresql://, or be empty for the embedded database")
	}
	if s.PrimaryURL != "" && !isOrigin(s.PrimaryURL) {
		c.fail("primary-url", "SLUICE_PRIMARY_URL", "must be a scheme and a host, as in https://sluice-eu.example.com")
	}
	return errors.Join(c.errs...)
}

// Postgres reports whether the rules live in Postgres, not in the data directory.
func (s *Storage) Postgres() bool { return s.DatabaseURL.File != "" || isPostgres(s.DatabaseURL.Value) }

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// Database is what database.Open takes: the Postgres URL, or the path of the
// embedded file. It is "" if the URL is in a file.
func (s *Storage) Database() string {
	if s.Postgres() {
		return s.DatabaseURL.Value
	}
	return filepath.Join(s.DataDir, "sluice.db")
}

// NeedsDataDir reports whether the data directory holds the only copy of rules or
// counters.
func (s *Serve) NeedsDataDir() bool { return !s.Postgres() || !s.Redis() }

// CopyFile is the file with the last good rules and tokens.
func (s *Serve) CopyFile() string { return filepath.Join(s.DataDir, "rules.copy") }

// OverridesFile is the file with their overrides.
func (s *Serve) OverridesFile() string { return filepath.Join(s.DataDir, "overrides.copy") }

// NodesFile is the file with the number of live nodes, for an outage of Redis.
func (s *Serve) NodesFile() string { return filepath.Join(s.DataDir, "nodes.count") }

// SnapshotFile is the file with the counters of this process.
func (s *Serve) SnapshotFile() string { return filepath.Join(s.DataDir, "counters.snapshot") }

// UnsentFile is the file with the figures that could not be written to the rules database at a stop.
func (s *Serve) UnsentFile() string { return filepath.Join(s.DataDir, "figures.unsent") }

// hostOf returns the host of an address, which must have a port too.
func hostOf(address string) (string, error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("must be host:port, as in 127.0.0.1:8080, not %q", address)
	}
	if port, err := strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", fmt.Errorf("has a bad port %q; it must be 0 to 65535", p)
	}
	return host, nil
}

// Loopback reports whether only this machine can reach the listener: its host
// is localhost or a loopback address. A name that merely resolves to one does
// not count.
func (l *Listener) Loopback() bool { return loopback(l.Listen) }

func loopback(address string) bool {
	host, err := hostOf(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// TLS reports whether the listener uses TLS.
func (l *Listener) TLS() bool { return l.TLSCertFile != "" }

func (l *Listener) checkTLS(c *checker) {
	const cert, key = "SLUICE_TLS_CERT_FILE", "SLUICE_TLS_KEY_FILE"
	switch {
	case l.TLSCertFile == "" && l.TLSKeyFile != "":
		c.fail("tls-cert-file", cert, "must be set together with --tls-key-file (%s)", key)
	case l.TLSKeyFile == "" && l.TLSCertFile != "":
		c.fail("tls-key-file", key, "must be set together with --tls-cert-file (%s)", cert)
	case l.TLSClientCAFile != "" && !l.TLS():
		c.fail("tls-client-ca-file", "SLUICE_TLS_CLIENT_CA_FILE", "requires --tls-cert-file (%s)", cert)
	}
	if _, err := l.ClientScopes(); err != nil {
		c.fail("tls-client-scopes", "SLUICE_TLS_CLIENT_SCOPES", "%s", err)
	}
	if l.TLSClientScopes != "" && l.TLSClientCAFile == "" {
		c.fail("tls-client-scopes", "SLUICE_TLS_CLIENT_SCOPES", "is %q, which requires --tls-client-ca-file "+
			"(SLUICE_TLS_CLIENT_CA_FILE): without it no client certificate is requested", l.TLSClientScopes)
	}
}

// ClientScopes parses TLSClientScopes; nil if it is empty.
func (l *Listener) ClientScopes() (*access.Certificates, error) {
	if l.TLSClientScopes == "" {
		return nil, nil //nolint:nilnil // it is an option
	}
	return access.ParseCertificates(l.TLSClientScopes)
}

// Values of Matching.RouteCase.
const (
	CaseKeep = "keep"
	CaseFold = "fold"
)

// Options returns how addresses and routes are counted. Validate refuses invalid prefixes.
func (m *Matching) Options() match.Options {
	nat64, _ := match.ParseNAT64(m.NAT64Prefixes)
	return match.Options{IPv4Prefix: m.IPv4Prefix, IPv6Prefix: m.IPv6Prefix, NAT64: nat64,
		FoldRoute: m.RouteCase == CaseFold}
}

// TrustedNetworks parses TrustedProxies; a bare address is a network of one.
func (l *Listener) TrustedNetworks() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range l.TrustedProxies {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if addr, err := netip.ParseAddr(s); err == nil {
			addr = addr.Unmap() // as the addresses that are compared with it
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if err != nil {
			return nil, fmt.Errorf("must be networks such as 10.0.0.0/8, not %q", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Validate checks the server's address.
func (c *Remote) Validate() error {
	u, err := url.Parse(c.Server)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("--server (SLUICE_SERVER) must be a URL such as http://127.0.0.1:8080")
	}
	return nil
}

// Validate checks the server's address, that the token is set once, and that a client
// certificate has a key.
func (c *Client) Validate() error {
	var bad checker
	bad.secrets(c)
	const cert, key = "SLUICE_CLIENT_CERT_FILE", "SLUICE_CLIENT_KEY_FILE"
	switch {
	case c.ClientCertFile == "" && c.ClientKeyFile != "":
		bad.fail("client-cert", cert, "must be set together with --client-key (%s)", key)
	case c.ClientKeyFile == "" && c.ClientCertFile != "":
		bad.fail("client-key", key, "must be set together with --client-cert (%s)", cert)
	}
	return errors.Join(append(bad.errs, c.Remote.Validate())...)
}
