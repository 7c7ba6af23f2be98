package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// freePort returns a port that nobody listens on right now.
func freePort(t testing.TB) int {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// certificate writes a self-signed certificate of 127.0.0.1 and its key, and
// returns the files and a pool that trusts it.
func certificate(t testing.TB) (cert, key string, trusted *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trusted = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), trusted
}

func TestStore_SpeaksTLSAsAUserWithFewRights(t *testing.T) {
	cert, key, trusted := certificate(t)
	port := freePort(t)
	srv := testenv.Redis(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no")
	grant := append([]any{"ACL", "SETUSER", "sluice", "on", ">pa:ss/w@rd", "resetkeys", "~sl:*", "-@all"}, needed...)
	if err := direct(t, srv).Do(context.Background(), grant...).Err(); err != nil {
		t.Fatal(err)
	}
	connect := func(userinfo string, pool *x509.CertPool) *redisstore.Store {
		c, err := redisstore.NewClient(fmt.Sprintf("rediss://%s127.0.0.1:%d", userinfo, port), redisstore.ClientOptions{
			TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DialTimeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return open(t, c, redisstore.Options{})
	}
	s := connect("sluice:pa%3Ass%2Fw%40rd@", trusted)
	for i, l := range limits(minute) {
		a := ask(entity(), i, l)
		id := fmt.Sprintf("id %d", i)
		for _, weight := range []int64{1, 50, 90} {
			a.Weight = weight
			take(t, s, id+fmt.Sprint(weight), a)
		}
		do(t, s, limiter.OpRefund, id+"1", a)
		do(t, s, limiter.OpReset, "", a)
	}
	wrong := connect("sluice:wrong@", trusted)
	err := wrong.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{ask(entity(), 1, shop)}}, &limiter.Result{})
	wantCause(t, err, limiter.CauseAuth, false)
	strangers := connect("sluice:pa%3Ass%2Fw%40rd@", x509.NewCertPool())
	err = strangers.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{ask(entity(), 1, shop)}},
		&limiter.Result{})
	wantCause(t, err, limiter.CauseConnection, false)
}

// needed are the commands of the script and of connecting.
var needed = []any{
	"+@connection", "+@scripting", "+time", "+get", "+set", "+del", "+pttl", "+pexpire", "+lindex", "+lset", "+lrem",
	"+ltrim", "+rpush",
	"+zadd", "+zcard", "+zcount", "+zrange", "+zrem", "+zremrangebyrank", "+zscore", "+hset", "+hget", "+hmget", "+hdel",
}

// sentinel starts a sentinel that watches primary under the name "counters".
func sentinel(t testing.TB, primary *testenv.RedisServer) (addr string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf, port := filepath.Join(dir, "sentinel.conf"), freePort(t)
	host, primaryPort, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor counters %s %s 1\nsentinel "+
		"down-after-milliseconds counters 500\nsentinel failover-timeout counters 5000\n",
		port, dir, host, primaryPort)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), path, conf,
		"--sentinel") //nolint:gosec // a test starts the server it tests with
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	asked := redis.NewSentinelClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer func() { _ = asked.Close() }()
	until(t, "the sentinel to know the primary", func() bool {
		return asked.GetMasterAddrByName(context.Background(), "counters").Err() == nil
	})
	return addr
}

// replicated waits until the replica of a primary has all that was written there. It writes to key
// itself: WAIT is about the writes of its own connection, and so about those before them.
func replicated(t testing.TB, primary *testenv.RedisServer, key string) {
	t.Helper()
	conn := direct(t, primary).Conn()
	defer func() { _ = conn.Close() }()
	if err := conn.Set(context.Background(), key, 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := conn.Wait(context.Background(), 1, 5*time.Second).Val(); n != 1 {
		t.Fatal("the replica has not confirmed")
	}
}

func TestStore_FollowsSentinelToTheNewPrimary(t *testing.T) {
	primary, replica := testenv.Redis(t), testenv.Redis(t, "--repl-ping-replica-period", "1")
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := direct(t, replica).ReplicaOf(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	watcher := sentinel(t, primary)
	asked := redis.NewSentinelClient(&redis.Options{Addr: watcher, DisableIdentity: true})
	t.Cleanup(func() { _ = asked.Close() })
	until(t, "the sentinel to know the replica", func() bool {
		replicas, err := asked.Replicas(ctx, "counters").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	s := open(t, client(t, "redis+sentinel://"+watcher+"/counters"), redisstore.Options{})
	a := ask(entity(), 1, shop)
	for range 10 {
		take(t, s, "", a)
	}
	replicated(t, primary, "mark")
	start := time.Now()
	primary.Kill()
	failed := 0
	until(t, "the replica to be made primary", func() bool {
		_, err := takeWithin(s, a)
		if err != nil {
			failed++
		}
		return err == nil
	})
	t.Logf("served again after %v and %d failed requests", time.Since(start), failed)
	var res limiter.Result
	until(t, "the breaker to close", func() bool {
		return s.Do(ctx, &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{a}}, &res) == nil
	})
	if got := shop.Count - res.Limits[0].Remaining; got != 11 {
		t.Errorf("the new primary holds %d, admitted 11", got)
	}
}
