package kafkasink

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/records"
	"sluice/internal/testenv"
)

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		err *kerr.Error
		// passes is whether the events are delivered all the same, reason why not.
		passes bool
		reason string
	}{
		{kerr.NotEnoughReplicas, true, ""},
		{kerr.NotEnoughReplicasAfterAppend, true, ""}, // kfake appends
		{kerr.RequestTimedOut, true, ""},              // kfake appends
		{kerr.NotLeaderForPartition, true, ""},
		{kerr.KafkaStorageError, true, ""},
		{kerr.CorruptMessage, false, "refused"},
		{kerr.MessageTooLarge, false, "refused"},
		{kerr.TopicAuthorizationFailed, false, "refused"},
		{kerr.PolicyViolation, false, "refused"},
		{kerr.InvalidRecord, false, "refused"},
		// The client can produce no more, and is replaced.
		{kerr.ClusterAuthorizationFailed, false, "refused"},
		{kerr.OutOfOrderSequenceNumber, false, "refused"},
	} {
		t.Run(tt.err.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			f := newSink(t, c.ListenAddrs(), Options{})
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topicName, Err: tt.err, Count: 3})
			f.write(1000)
			f.flush()
			if tt.passes {
				f.close()
				f.want(1000, nil, 0)
				f.proves(f.readBack())
				return
			}
			total := f.totals()
			if n := total.Dropped[tt.reason]; n == 0 || n+total.Delivered != 1000 {
				t.Errorf("%+v, want the rest dropped as %s", total, tt.reason)
			}
			f.log.wait(t, 1)
			f.close()
			f.proves(f.readBack())
		})
	}
}

// failing reports whether the sink has noted that Kafka does not take events.
func (f *fixture) failing() bool {
	return f.opt.Trouble.On(waits, f.opt.Topic) || f.opt.Trouble.On(refuses, f.opt.Topic)
}

func TestWrite_ReplacesAClientThatCanProduceNoMore(t *testing.T) {
	c := fake(t)
	f := newSink(t, c.ListenAddrs(), Options{})
	refusals := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true,
		Err: kerr.ClusterAuthorizationFailed, Count: -1})
	f.write(100)
	f.flush()
	f.want(0, map[string]int64{"refused": 100}, 0)
	f.log.want(t, "CLUSTER_AUTHORIZATION_FAILED")
	if !f.failing() {
		t.Error("Failing is false")
	}
	refusals.Remove()
	f.pass(reopenAfter)
	f.write(100)
	f.close()
	f.want(100, map[string]int64{"refused": 100}, 0)
	f.proves(f.readBack())
	f.log.want(t, "CLUSTER_AUTHORIZATION_FAILED", "again")
	if f.failing() {
		t.Error("Failing is true")
	}
}

func TestTopicMissing_IsRefusedAndLoggedOnce(t *testing.T) {
	c := fake(t)
	f := newSink(t, c.ListenAddrs(), Options{Connection: Connection{Topic: "other"}})
	f.log.wait(t, 1) // at the start, before there are events
	f.write(500)
	f.flush()
	f.want(0, map[string]int64{"refused": 500}, 0)
	f.log.want(t, "refuses the events of the decision log: they are dropped")
	f.log.want(t, "UNKNOWN_TOPIC_OR_PARTITION")
	if err := c.CreateTopic("other", 3, nil); err != nil {
		t.Fatal(err)
	}
	f.write(500)
	f.close()
	f.want(500, map[string]int64{"refused": 500}, 0)
	f.proves(f.readBack())
	f.log.want(t, "UNKNOWN_TOPIC_OR_PARTITION", "again")
}

func TestLeadersMove(t *testing.T) {
	c := fake(t)
	f := newSink(t, c.ListenAddrs(), Options{})
	for i := range 20 {
		f.write(300)
		if err := c.MoveTopicPartition(topicName, int32(i%4), int32(i%3)); err != nil {
			t.Fatal(err)
		}
		c.ShufflePartitionLeaders()
	}
	f.close()
	f.want(6000, nil, 0)
	f.proves(f.readBack())
}

func TestRestart_KeepsWhatIsDelivered(t *testing.T) {
	dir := t.TempDir()
	var ports []int
	for range 3 {
		_, port, err := net.SplitHostPort(testenv.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, n)
	}
	opts := []kfake.Opt{kfake.Ports(ports...), kfake.DataDir(dir), kfake.SyncWrites()}
	c := fake(t, opts...)
	f := newSink(t, c.ListenAddrs(), Options{})
	f.write(2000)
	f.flush()
	for range 3 {
		f.write(1000)
		c.Close()
		f.write(1000)
		c = fake(t, opts...)
		f.flush()
	}
	f.close()
	f.want(8000, nil, 0)
	f.proves(f.readBack())
}

func TestBrokerAbsent_IsOneLineAndSoIsItsReturn(t *testing.T) {
	_, port, _ := net.SplitHostPort(testenv.FreeAddr(t))
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	f := newSink(t, []string{"127.0.0.1:" + port}, Options{})
	f.write(100)
	f.log.wait(t, 1)
	f.log.want(t, "they wait, and those it does not take in time")
	f.log.want(t, "connection refused")
	if !f.failing() || f.Oldest().IsZero() {
		t.Error("the sink does not say that it waits")
	}
	fake(t, kfake.NumBrokers(1), kfake.Ports(n))
	f.close()
	f.want(100, nil, 0)
	f.proves(f.readBack())
	f.log.want(t, "connection refused", "again")
}

// Events that waited for a broker are dropped once the broker says that there is no such topic.
func TestTopicMissing_IsLoggedAfterABrokerThatWasAbsent(t *testing.T) {
	addr := testenv.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	f := newSink(t, []string{addr}, Options{Connection: Connection{Topic: "other"}})
	f.write(100)
	f.log.wait(t, 1)
	fake(t, kfake.NumBrokers(1), kfake.Ports(n))
	f.flush()
	f.close()
	f.want(0, map[string]int64{"refused": 100}, 0)
	f.log.want(t, "they wait", "they are dropped")
}

func TestTLS(t *testing.T) {
	ca, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	pair, err := tls.LoadX509KeyPair(ca.Issue(t, t.TempDir(), "broker", time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	c := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))

	f := newSink(t, c.ListenAddrs(), Options{Connection: Connection{TLS: ca.Client(t, "")}})
	f.write(1000)
	f.close()
	f.want(1000, nil, 0)
	f.proves(f.readBack(kgo.DialTLSConfig(ca.Client(t, ""))))
	f.log.want(t)

	for name, opt := range map[string]Connection{"authority": {TLS: other.Client(t, "")}, "TLS": {}} {
		f = newSink(t, c.ListenAddrs(), Options{Connection: opt})
		f.write(100)
		f.log.wait(t, 1)
		f.log.want(t, name)
		f.stop()
		f.want(0, map[string]int64{"shutdown": 100}, 0)
	}
}

func TestSASL(t *testing.T) {
	for mechanism, name := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256",
		"scram-sha-512": "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			c := fake(t, kfake.EnableSASL(), kfake.Superuser(name, "sluice", "swordfish"),
				kfake.Superuser("PLAIN", "reader", "r"))
			var password atomic.Value
			password.Store("an old password")
			f := newSink(t, c.ListenAddrs(), Options{Connection: Connection{SASL: mechanism, User: "sluice",
				Password: func() string { return password.Load().(string) }}})
			f.write(100)
			f.pass(patience + time.Second)
			f.log.wait(t, 1)
			f.log.want(t, "while the node authenticated")
			password.Store("swordfish") // the file was rotated
			f.close()
			f.want(100, nil, 0)
			f.log.want(t, "while the node authenticated", "again")
		})
	}
	for _, to := range []Connection{{SASL: "gssapi", User: "u", Password: func() string { return "p" }}, {SASL: "plain"}} {
		to.Brokers, to.Topic = []string{"127.0.0.1:1"}, topicName
		opt := Options{Connection: to, Account: &records.Account{}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		if _, err := Open(opt); err == nil {
			t.Errorf("%s with user %q: opened", opt.SASL, opt.User)
		}
	}
}

// An answer out of turn, about a batch that was sent behind one that failed, says something to the ledger and nothing
// to the client, which sends that batch again.
func TestAnswerOutOfTurn_IsSentAgain(t *testing.T) {
	c := fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "one"))
	sent := make(chan struct{}, 100)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return producing{conn, sent}, err
	}
	f := newSink(t, c.ListenAddrs(), Options{Connection: Connection{Topic: "one", Dial: dial}})
	f.write(10)
	f.flush() // the client sends one request at a time until the first answer
	<-sent
	goOn := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.SleepControl(func() { <-goOn })
		return nil, nil, false
	})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "one", Err: kerr.RequestTimedOut})
	f.write(10)
	<-sent
	f.write(10)
	<-sent // behind the first, which has no answer yet
	close(goOn)
	f.flush()
	f.write(10)
	f.close()
	f.want(40, nil, 0)
	f.proves(f.readBack())
}

// producing is a connection that says when a produce request was written.
type producing struct {
	net.Conn
	sent chan<- struct{}
}

// Write implements net.Conn. The client writes one whole request at a time, and the key is behind its length.
func (c producing) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if len(b) > 6 && b[4] == 0 && b[5] == byte(kmsg.Produce) {
		c.sent <- struct{}{}
	}
	return n, err
}
