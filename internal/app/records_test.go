package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"sluice/internal/config"
	"sluice/internal/records"
)

// recording is settings that record every decision.
func recording(t *testing.T, to ...string) config.Serve {
	t.Helper()
	cfg := settings(t)
	cfg.Records = config.Records{DecisionLog: to, MaxLogBytes: 1 << 20, LogRate: 100, LogClientIP: "prefix"}
	return cfg
}

// askTwice creates a rule with a limit of 1 and asks twice, so that the second request is denied.
func (n *node) askTwice() {
	n.t.Helper()
	n.create(`{"name": "once", "limit": 1, "window_ms": 60000, "algorithm": "fixed_window", "scope": "user"}`)
	eventually(n.t, "the rule counts", func() bool {
		_, answer := n.send("POST", "/ratelimit/check", `{"user": "probe"}`)
		limits, _ := answer["limits"].([]any)
		return len(limits) == 1
	})
	for range 2 {
		n.send("POST", "/ratelimit/check",
			`{"user": "ada", "api_key": "planted-secret", "ip": "192.0.2.77", "user_agent": "curl/8", "trace_id": "t1"}`)
	}
}

// ofAda are the events of the user ada.
func ofAda(t *testing.T, lines [][]byte) (out []records.Event) {
	t.Helper()
	for _, line := range lines {
		var e records.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Key == "user:ada" {
			out = append(out, e)
		}
		if bytes.Contains(line, []byte("planted")) || bytes.Contains(line, []byte("192.0.2.77")) {
			t.Errorf("an event has a credential or a whole address: %s", line)
		}
	}
	return out
}

func checkAda(t *testing.T, events []records.Event) {
	t.Helper()
	if len(events) != 2 {
		t.Fatalf("%d events of ada, want 2: %+v", len(events), events)
	}
	first, second := events[0], events[1]
	if !first.Allowed || first.Used != 1 || first.Status != 200 ||
		second.Allowed || second.Used != 1 || second.Status != 429 {
		t.Errorf("%+v\n%+v", first, second)
	}
	for _, e := range events {
		if e.Schema != 1 || e.Rule != "once" || e.Limit != 1 || e.UserAgent != "curl/8" || e.TraceID != "t1" ||
			e.Op != "check" || e.Face != "http" || e.Node == "" || e.Rate != 100 || !e.Drawn ||
			!strings.HasPrefix(e.Facts.APIKey, "hash:") || e.ClientIP != "192.0.2.0/24" {
			t.Errorf("%+v", e)
		}
	}
}

func TestRecords_InFiles(t *testing.T) {
	t.Parallel()
	cfg := recording(t, config.DecisionLogFile)
	n := start(t, cfg)
	n.askTwice()
	_, answer := n.send("GET", "/ratelimit/stats", "")
	logs, _ := answer["decision_log"].(map[string]any)
	if file, _ := logs["file"].(map[string]any); file == nil || file["produced"].(float64) < 3 || len(logs) != 1 {
		t.Errorf("/ratelimit/stats says %v of the decision log", answer["decision_log"])
	}
	if again, err := tryStart(t, cfg); err == nil || !strings.Contains(err.Error(), "SLUICE_D") {
		t.Errorf("a second server uses the same files: %v", err)
		again.stop()
	}
	n.stop()
	checkAda(t, ofAda(t, linesIn(t, filepath.Join(cfg.DataDir, "decisions"))))
}

// linesIn are the lines of a decision log in files.
func linesIn(t *testing.T, dir string) (out [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "decisions*.jsonl*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s (%v)", dir, err)
	}
	for _, name := range files {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var from io.Reader = bytes.NewReader(whole)
		if strings.HasSuffix(name, ".gz") {
			if from, err = gzip.NewReader(from); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))...)
	}
	return out
}

func TestRecords_InKafka(t *testing.T) {
	t.Parallel()
	const topic, user, password = "decisions", "sluice", "planted-password"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic), kfake.EnableSASL(),
		kfake.Superuser("SCRAM-SHA-256", user, password))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cfg := recording(t, config.DecisionLogKafka)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Kafka = config.Kafka{KafkaBrokers: cluster.ListenAddrs(), KafkaTopic: topic, KafkaCompression: "gzip",
		KafkaConnection: config.KafkaConnection{KafkaSASL: "scram-sha-256", KafkaUser: user,
			KafkaPassword: config.Secret{File: file}}}
	n := start(t, cfg)
	n.askTwice()
	eventually(t, "Kafka has every event", func() bool {
		return n.metric(`sluice_decision_log_delivered_total{sink="kafka"}`) >= 3 &&
			n.metric(`sluice_decision_log_buffered{sink="kafka"}`) == 0
	})
	produced := int(n.metric(`sluice_decision_log_produced_total{sink="kafka"}`))
	n.stop()
	if strings.Contains(n.log.String(), password) {
		t.Error("the log has the password")
	}
	checkAda(t, ofAda(t, linesOf(t, produced, kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))))
}

// A Kafka that is connected and silent takes the drain timeout and no more: what is stopped after the decision log has
// its time, the stop is a clean one, and the log of the process says what became of every event.
func TestRecords_AFrozenKafkaTakesNoTimeFromTheRestOfTheStop(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cfg := recording(t, config.DecisionLogKafka)
	cfg.DrainTimeout = time.Second
	cfg.Kafka = config.Kafka{KafkaBrokers: []string{silent.Addr().String()}, KafkaTopic: "decisions",
		KafkaCompression: "gzip"}
	n := start(t, cfg)
	n.askTwice()
	produced := n.metric(`sluice_decision_log_produced_total{sink="kafka"}`)
	if age := n.metric(`sluice_decision_log_oldest_seconds{sink="kafka"}`); age <= 0 {
		t.Errorf("events wait for Kafka, and the oldest is %v s old", age)
	}
	n.stop() // without an error: the process ends with exit code 0
	want := fmt.Sprintf("produced=%v delivered=0 dropped=", produced)
	if text := n.log.String(); !strings.Contains(text, want) || !strings.Contains(text, fmt.Sprintf("shutdown:%v",
		produced)) {
		t.Errorf("the log has no %q: %s", want, text)
	}
	if text := n.log.String(); !strings.Contains(text, "the node stopped before Kafka took all events") ||
		!strings.Contains(text, fmt.Sprintf("dropped=%v doubtful=0 bytes=", produced)) {
		t.Errorf("the log has no warning about what was left: %s", text)
	}
}

// linesOf are the first records of a topic.
func linesOf(t *testing.T, most int, opts ...kgo.Opt) (out [][]byte) {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(out) < most {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(out), most, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { out = append(out, r.Value) })
	}
	return out
}
