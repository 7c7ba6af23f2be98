package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ClientOptions adjust a client. The zero value is good for production.
type ClientOptions struct {
	// PoolSize bounds the connections to one server, 8 if 0. A Store has three
	// script calls under way at once on a single node, more on a cluster.
	PoolSize int
	// DialTimeout bounds a connection attempt, 50 ms if 0.
	DialTimeout time.Duration
	// Timeout bounds a read or a write where the context has no earlier
	// deadline, 1 s if 0.
	Timeout time.Duration
	// TLS replaces the default configuration of rediss:// addresses.
	TLS *tls.Config
	// Current returns the URL whose user and password new connections use. It passes CheckURL with the URL
	// of the client. Nil: they never change. It is called concurrently.
	Current func() string
}

// target is what an address list says.
type target struct {
	addrs  []string
	user   string
	pass   string
	db     int
	secure bool
	master string // Sentinel's name of the primary
	sUser  string
	sPass  string
}

// NewClient makes a client from the value of REDIS_URL:
//
//	redis://[user:password@]host[:port][/db]      a single server
//	rediss://…                                    the same with TLS
//	redis://host1:port1,host2:port2               several addresses: a cluster
//	redis+sentinel://[user:password@]host1:port1,host2:port2/name[/db]
//	                                              the primary that Sentinel knows as name
//
// The list may also be whole addresses separated by commas. rediss+sentinel
// uses TLS. Query parameters: sentinel_user and sentinel_password.
//
// The client never repeats a command, because a repeated script would charge twice, and honours the deadlines of
// contexts. It does not connect here. An error names REDIS_URL and never contains the password.
func NewClient(rawURL string, opt ClientOptions) (redis.UniversalClient, error) {
	t, err := parseTarget(rawURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	u := t.options(opt)
	if opt.Current != nil {
		u.Username, u.Password = "", ""
		u.CredentialsProviderContext = func(context.Context) (user, password string, err error) {
			now, err := parseTarget(opt.Current())
			if err != nil {
				return "", "", fmt.Errorf("REDIS_URL: %w", err)
			}
			return now.user, now.pass, nil
		}
	}
	switch {
	case t.master != "":
		return redis.NewFailoverClient(u.Failover()), nil
	case len(t.addrs) > 1:
		return redis.NewClusterClient(u.Cluster()), nil
	}
	return redis.NewClient(u.Simple()), nil
}

// CheckURL returns an error unless value is a valid REDIS_URL that differs from inForce in its user and password only.
// If inForce is "", any valid URL is accepted. The error contains no part of either.
func CheckURL(inForce, value string) error {
	t, err := parseTarget(value)
	if err != nil || inForce == "" {
		return err
	}
	old, err := parseTarget(inForce)
	if err != nil {
		return err
	}
	old.user, old.pass = t.user, t.pass
	if !reflect.DeepEqual(old, t) {
		return errors.New("has another server, database or parameter, not only another user or password; " +
			"restart to use it")
	}
	return nil
}

func (t *target) options(opt ClientOptions) *redis.UniversalOptions {
	if opt.PoolSize <= 0 {
		opt.PoolSize = 8
	}
	if opt.DialTimeout <= 0 {
		opt.DialTimeout = 50 * time.Millisecond
	}
	if opt.Timeout <= 0 {
		opt.Timeout = time.Second
	}
	u := &redis.UniversalOptions{
		Addrs:                 t.addrs,
		DB:                    t.db,
		Username:              t.user,
		Password:              t.pass,
		MasterName:            t.master,
		SentinelUsername:      t.sUser,
		SentinelPassword:      t.sPass,
		MaxRetries:            -1, // a repeated script charges twice
		DialerRetries:         1,
		DialTimeout:           opt.DialTimeout,
		ReadTimeout:           opt.Timeout,
		WriteTimeout:          opt.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              opt.PoolSize,
		MaxActiveConns:        opt.PoolSize,
		PoolTimeout:           5 * time.Millisecond,
		ConnMaxIdleTime:       5 * time.Minute,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
	if t.secure {
		u.TLSConfig = opt.TLS
		if u.TLSConfig == nil {
			u.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return u
}

// encodeHint is for passwords that end the list of addresses early. The errors
// quote nothing, since it may be a part of the password.
const encodeHint = "in a user or password, write / as %2F, ? as %3F and % as %25"

// parseTarget reads an address list. Its errors say what is wrong without
// repeating the value, which may contain a password.
func parseTarget(raw string) (*target, error) {
	raw = strings.TrimSpace(raw)
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New("must start with redis://, rediss:// or redis+sentinel://" + rightForm(raw))
	}
	t := &target{}
	sentinel := false
	switch strings.ToLower(scheme) {
	case "redis":
	case "rediss":
		t.secure = true
	case "redis+sentinel":
		sentinel = true
	case "rediss+sentinel":
		sentinel, t.secure = true, true
	default:
		return nil, errors.New("must start with redis://, rediss:// or redis+sentinel://")
	}
	// Further addresses may repeat the scheme.
	rest = strings.ReplaceAll(rest, ","+scheme+"://", ",")
	if strings.Contains(rest, "://") {
		return nil, errors.New("its addresses must all have one scheme")
	}
	rest, query, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		if err := t.credentials(host[:at]); err != nil {
			return nil, err
		}
		host = host[at+1:]
	}
	if err := t.addresses(host, sentinel); err != nil {
		return nil, err
	}
	if err := t.path(path, sentinel); err != nil {
		return nil, err
	}
	if err := t.query(query, sentinel); err != nil {
		return nil, err
	}
	return t, nil
}

// Addresses without a scheme, in which nothing can be a password.
var (
	bareAddresses = regexp.MustCompile(`^[A-Za-z0-9.-]+:[0-9]+(,[A-Za-z0-9.-]+:[0-9]+)*$`)
	bareSentinels = regexp.MustCompile(`^([A-Za-z0-9._-]+),([A-Za-z0-9.-]+:[0-9]+(,[A-Za-z0-9.-]+:[0-9]+)*)$`)
)

// rightForm says how to write an address without a scheme. Other programs use such addresses, for example
// envoyproxy/ratelimit, which writes the name of a Sentinel primary before the addresses.
func rightForm(raw string) string {
	if strings.HasPrefix(raw, "/") {
		return "; a Unix socket is not supported"
	}
	if bareAddresses.MatchString(raw) {
		return ": write redis://" + raw + ", or rediss://" + raw + " for TLS"
	}
	if m := bareSentinels.FindStringSubmatch(raw); m != nil {
		return ": write redis+sentinel://" + m[2] + "/" + m[1]
	}
	return ", as in redis://host:6379"
}

func (t *target) credentials(userinfo string) error {
	user, pass, hasPass := strings.Cut(userinfo, ":")
	var errU, errP error
	t.user, errU = url.PathUnescape(user)
	t.pass, errP = url.PathUnescape(pass)
	if errU != nil || errP != nil {
		return errors.New("has a user or password that is not percent-encoded")
	}
	if !hasPass && t.user != "" {
		return errors.New("has a user without a password; write :password@ for a password without a user")
	}
	return nil
}

func (t *target) addresses(list string, sentinel bool) error {
	port := "6379"
	if sentinel {
		port = "26379"
	}
	for a := range strings.SplitSeq(list, ",") {
		a = strings.TrimSuffix(strings.TrimSpace(a), "/")
		u, err := url.Parse("//" + a)
		if err != nil || u.Hostname() == "" || u.Path != "" || u.User != nil {
			return errors.New("has an address that is not host:port; " + encodeHint)
		}
		p := u.Port()
		if p == "" {
			p = port
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return errors.New("has a port that is not a number from 1 to 65535; " + encodeHint)
		}
		h := u.Hostname()
		if strings.Contains(h, ":") {
			h = "[" + h + "]"
		}
		t.addrs = append(t.addrs, h+":"+p)
	}
	return nil
}

// path reads what follows the addresses: /db, or for Sentinel /name and /name/db.
func (t *target) path(path string, sentinel bool) error {
	db := path
	if sentinel {
		t.master, db, _ = strings.Cut(path, "/")
		if t.master == "" {
			return errors.New("must name the primary: redis+sentinel://host:port/name")
		}
	}
	if db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return errors.New("has a database that is not a number; " + encodeHint)
	}
	if n > 0 && !sentinel && len(t.addrs) > 1 {
		return errors.New("names a database, but a cluster has only database 0")
	}
	t.db = n
	return nil
}

func (t *target) query(query string, sentinel bool) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("has a malformed query")
	}
	for name := range q {
		switch {
		case sentinel && name == "sentinel_user":
			t.sUser = q.Get(name)
		case sentinel && name == "sentinel_password":
			t.sPass = q.Get(name)
		default:
			return errors.New("has an unknown parameter; known are sentinel_user and sentinel_password; " + encodeHint)
		}
	}
	return nil
}
