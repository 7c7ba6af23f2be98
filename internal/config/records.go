package config

import (
	"errors"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Records says which decisions are recorded, and where.
type Records struct {
	DecisionLog []string `name:"decision-log" env:"SLUICE_DECISION_LOG" placeholder:"WHERE" help:"Where decisions are recorded, one event for each. off, file, kafka, or file,kafka. Empty: file if rules and counters are embedded, else off."`
	MaxLogBytes Bytes    `name:"decision-log-max-bytes" env:"SLUICE_DECISION_LOG_MAX_BYTES" default:"64MiB" placeholder:"SIZE" help:"Space for the files of the decision log. Beyond it, the oldest are removed. 1MiB to 1024GiB."`
	LogRate     float64  `name:"decision-log-rate" env:"SLUICE_DECISION_LOG_RATE" default:"1" placeholder:"PERCENT" help:"Percentage of entities (users, else API keys, else addresses) whose allowed requests are recorded. Denials always are. If rules and counters are embedded, all allowed requests are recorded while the last minute had at most 50 per second. 0 to 100."`
	LogClientIP string   `name:"decision-log-client-ip" env:"SLUICE_DECISION_LOG_CLIENT_IP" default:"prefix" placeholder:"HOW" help:"How addresses of clients are recorded. prefix: the first 24 bits of an IPv4 address and 48 of an IPv6 address, and a keyed hash where limits by address need one. whole: as they are. hash: as a keyed hash. none: as little as the keys of limits by address allow, a keyed hash."`
	LogOmit     []string `name:"decision-log-omit" env:"SLUICE_DECISION_LOG_OMIT" placeholder:"FACTS" help:"Facts that are never recorded, as in user_agent,attr:email,field:amount. Of a fact that names a bucket, the key has a keyed hash. user, api_key, ip, host, route, method, tier, user_agent, attr:NAME and field:NAME."`
}

// Kafka says to which topic of which cluster decisions go.
type Kafka struct {
	KafkaBrokers     []string `name:"kafka-brokers" env:"SLUICE_KAFKA_BROKERS" placeholder:"LIST" help:"Some brokers, as in kafka-1:9092,kafka-2:9092. The others are learned from them."`
	KafkaTopic       string   `name:"kafka-topic" env:"SLUICE_KAFKA_TOPIC" default:"sluice.decisions" placeholder:"NAME" help:"Topic of the decision log. It must exist."`
	KafkaCompression string   `name:"kafka-compression" env:"SLUICE_KAFKA_COMPRESSION" default:"gzip" placeholder:"CODEC" help:"Compression of the decision log's batches. gzip, which every client of Kafka reads, zstd or none."`
	KafkaConnection  `embed:""`
}

// KafkaConnection says how to connect to brokers.
type KafkaConnection struct {
	KafkaTLS      bool   `name:"kafka-tls" env:"SLUICE_KAFKA_TLS" help:"Connect to the brokers with TLS."`
	KafkaCAFile   string `name:"kafka-ca-file" env:"SLUICE_KAFKA_CA_FILE" placeholder:"FILE" help:"Authorities that the certificates of the brokers are checked against, in PEM form. Empty: those of the system."`
	KafkaSASL     string `name:"kafka-sasl" env:"SLUICE_KAFKA_SASL" placeholder:"MECHANISM" help:"How the node authenticates. plain, scram-sha-256 or scram-sha-512. Empty: not at all."`
	KafkaUser     string `name:"kafka-user" env:"SLUICE_KAFKA_USER" placeholder:"NAME" help:"User for SASL."`
	KafkaPassword Secret `name:"kafka-password" env:"SLUICE_KAFKA_PASSWORD" changed:"New connections use a changed password" placeholder:"SECRET" help:"Password for SASL. Set it in the environment to keep it out of process listings."`
}

// The values of DecisionLog.
const (
	DecisionLogOff   = "off"
	DecisionLogFile  = "file"
	DecisionLogKafka = "kafka"
)

// logFacts are the facts of LogOmit without a name of their own.
var logFacts = []string{"user", "api_key", "ip", "host", "route", "method", "tier", "user_agent"}

func (r *Records) check(c *checker) {
	for _, where := range r.DecisionLog {
		c.oneOf("decision-log", "SLUICE_DECISION_LOG", where, DecisionLogOff, DecisionLogFile, DecisionLogKafka)
	}
	if r.off() {
		if len(r.DecisionLog) > 1 {
			c.fail("decision-log", "SLUICE_DECISION_LOG", "must be off alone, or file and kafka")
		}
		return
	}
	if r.MaxLogBytes < 1<<20 || r.MaxLogBytes > 1<<40 {
		c.fail("decision-log-max-bytes", "SLUICE_DECISION_LOG_MAX_BYTES", "must be between 1MiB and 1024GiB, not %s",
			r.MaxLogBytes)
	}
	if !(r.LogRate >= 0 && r.LogRate <= 100) { // also not a number
		c.fail("decision-log-rate", "SLUICE_DECISION_LOG_RATE", "must be between 0 and 100, not %v", r.LogRate)
	}
	c.oneOf("decision-log-client-ip", "SLUICE_DECISION_LOG_CLIENT_IP", r.LogClientIP, "prefix", "whole", "hash", "none")
	for _, name := range r.LogOmit {
		of, own, named := strings.Cut(name, ":")
		if named && (of == "attr" || of == "field") && own != "" || slices.Contains(logFacts, name) {
			continue
		}
		c.fail("decision-log-omit", "SLUICE_DECISION_LOG_OMIT", "must be a list of %s, attr:NAME and field:NAME, not %q",
			strings.Join(logFacts, ", "), name)
	}
}

func (r *Records) off() bool { return slices.Contains(r.DecisionLog, DecisionLogOff) }

// RecordsToFile reports whether decisions are recorded in files.
func (s *Serve) RecordsToFile() bool {
	return slices.Contains(s.DecisionLog, DecisionLogFile) || len(s.DecisionLog) == 0 && s.Embedded()
}

// Embedded reports whether rules and counters are those of this process alone.
func (s *Serve) Embedded() bool { return !s.Postgres() && !s.Redis() }

// RecordsToKafka reports whether decisions are recorded in Kafka.
func (r *Records) RecordsToKafka() bool { return slices.Contains(r.DecisionLog, DecisionLogKafka) }

// RecordsDir is the directory of the files of the decision log. It may be a mount or a symbolic link to another disk.
func (s *Serve) RecordsDir() string {
	return filepath.Join(s.DataDir, "decisions")
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

func (k *Kafka) check(c *checker, used bool) {
	c.secrets(k)
	if !used {
		if len(k.KafkaBrokers) > 0 {
			c.fail("kafka-brokers", "SLUICE_KAFKA_BROKERS", "is of no use without kafka in --decision-log (SLUICE_DECISION_LOG)")
		}
		return
	}
	if len(k.KafkaBrokers) == 0 {
		c.fail("kafka-brokers", "SLUICE_KAFKA_BROKERS", "is required by kafka in --decision-log (SLUICE_DECISION_LOG)")
	}
	for _, broker := range k.KafkaBrokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			c.fail("kafka-brokers", "SLUICE_KAFKA_BROKERS", "must be a list of host:port, as in kafka-1:9092,kafka-2:9092")
			break
		}
	}
	if !topicName.MatchString(k.KafkaTopic) {
		c.fail("kafka-topic", "SLUICE_KAFKA_TOPIC", "must be 1 to 249 letters, digits and ._-")
	}
	c.oneOf("kafka-compression", "SLUICE_KAFKA_COMPRESSION", k.KafkaCompression, "gzip", "zstd", "none")
	k.KafkaConnection.check(c)
}

// Check reports what does not fit together.
func (k *KafkaConnection) Check() error {
	var c checker
	c.secrets(k)
	k.check(&c)
	return errors.Join(c.errs...)
}

func (k *KafkaConnection) check(c *checker) {
	if k.KafkaCAFile != "" && !k.KafkaTLS {
		c.fail("kafka-ca-file", "SLUICE_KAFKA_CA_FILE", "requires --kafka-tls (SLUICE_KAFKA_TLS)")
	}
	if k.KafkaSASL == "" {
		if k.KafkaUser != "" || k.KafkaPassword.IsSet() {
			c.fail("kafka-sasl", "SLUICE_KAFKA_SASL", "is required by a user or a password")
		}
		return
	}
	c.oneOf("kafka-sasl", "SLUICE_KAFKA_SASL", k.KafkaSASL, "plain", "scram-sha-256", "scram-sha-512")
	if k.KafkaUser == "" || !k.KafkaPassword.IsSet() {
		c.fail("kafka-sasl", "SLUICE_KAFKA_SASL", "requires --kafka-user (SLUICE_KAFKA_USER) and --kafka-password "+
			"(SLUICE_KAFKA_PASSWORD) or its file")
	}
}
