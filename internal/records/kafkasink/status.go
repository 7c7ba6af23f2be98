package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/records"
	"sluice/internal/trouble"
)

var (
	waits = trouble.Declare(trouble.Condition{Code: "decision_log_kafka_waits",
		Advice: "see to the brokers, and to the network between them and this node", Severe: true, Of: "topic",
		Starts: "Kafka does not take the events of the decision log: they wait, and those it does not take in time " +
			"are dropped and counted in sluice_decision_log_dropped_total",
		Ends: "Kafka takes the events of the decision log again"})
	refuses = trouble.Declare(trouble.Condition{Code: "decision_log_kafka_refuses",
		Advice: "the attribute error says why: usually the rights or the size limit of the topic", Severe: true, Of: "topic",
		Starts: "Kafka refuses the events of the decision log: they are dropped and counted in " +
			"sluice_decision_log_dropped_total until it takes them",
		Ends:   "Kafka takes the events of the decision log again",
		Banner: "Kafka refuses the events of the decision log. They are dropped."})
)

// status notes that Kafka does not accept events, and that it accepts them again. It is safe for concurrent use.
type status struct {
	opt    *Options
	oldest func() time.Time
	now    func() time.Time

	mu     sync.Mutex
	last   error // why the last connection or question failed
	worked time.Time
}

// patience is how long an event waits before a failure that may be temporary is logged. For example, a broker restarts
// and others take over its partitions.
const patience = 5 * time.Second

// fail notes a failure during which events wait, unless they are dropped.
func (s *status) fail(err error) {
	if !s.opt.Trouble.On(refuses, s.opt.Topic) {
		s.opt.Trouble.Note(waits, s.opt.Topic, err, "brokers", s.opt.Brokers)
	}
}

// refuse notes a failure during which events are dropped at once. If an earlier line says that events wait, it is no
// longer true, so this line follows.
func (s *status) refuse(err error) {
	s.opt.Trouble.Forget(waits, s.opt.Topic)
	s.opt.Trouble.Note(refuses, s.opt.Topic, err, "brokers", s.opt.Brokers)
}

// works notes the end of a failure.
func (s *status) works() {
	now := s.now()
	s.mu.Lock()
	s.worked = now
	s.mu.Unlock()
	s.opt.Trouble.Clear(waits, s.opt.Topic)
	s.opt.Trouble.Clear(refuses, s.opt.Topic)
}

// noticed logs a failure that may be temporary, if events have waited for patience.
func (s *status) noticed(err error) {
	if err == nil || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	if errors.Is(s.last, err) {
		err = s.last // it contains more detail
	}
	s.last = err
	s.mu.Unlock()
	if at := s.oldest(); !at.IsZero() && s.now().Sub(at) > patience {
		s.fail(err)
	}
}

// gaveUp logs why the client gave an event up. A full buffer has another cause, which is logged, and after a failure
// the client gives old events up although it can deliver new ones.
func (s *status) gaveUp(err error) {
	switch reasonOf(err) {
	case records.ClientFull:
		return
	case records.TooOld:
		s.mu.Lock()
		works := !s.worked.IsZero() && s.now().Sub(s.worked) <= patience
		s.mu.Unlock()
		if works {
			return
		}
		s.fail(err)
	default:
		if !errors.Is(err, kgo.ErrClientClosed) {
			s.refuse(err)
		}
	}
}

// checked logs what the first question to Kafka found out.
func (s *status) checked(ctx context.Context, resp *kmsg.MetadataResponse, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // by Close
	}
	if err != nil {
		s.mu.Lock()
		if s.last != nil { // err often says only that the time is over
			err = s.last
		}
		s.mu.Unlock()
		s.fail(err)
		return
	}
	for i := range resp.Topics {
		if err := kerr.ErrorForCode(resp.Topics[i].ErrorCode); err != nil && !kerr.IsRetriable(err) ||
			errors.Is(err, kerr.UnknownTopicOrPartition) {
			s.refuse(err)
		}
	}
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (s *status) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	s.noticed(err)
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (s *status) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	err := e.Err()
	if err != nil && (key == int16(kmsg.SASLHandshake) || key == int16(kmsg.SASLAuthenticate)) {
		// Some brokers close the connection and say nothing.
		err = fmt.Errorf("while the node authenticated: %w", err)
	}
	s.noticed(err)
}

var (
	_ kgo.HookBrokerConnect = (*status)(nil)
	_ kgo.HookBrokerE2E     = (*status)(nil)
)

// reasonOf is the reason for which an event is dropped that the client gave up with err.
func reasonOf(err error) records.Reason {
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered):
		return records.ClientFull
	case errors.Is(err, kgo.ErrRecordTimeout):
		return records.TooOld
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID),
		errors.Is(err, kerr.CorruptMessage):
		return records.Refused
	}
	// What is left at Close is in the account before the client closes. Otherwise the client was replaced.
	if errors.Is(err, kgo.ErrClientClosed) {
		return records.Refused
	}
	if code, ok := errors.AsType[*kerr.Error](err); ok && !code.Retriable {
		return records.Refused
	}
	return records.TooOld // after the last of many failures that might have passed
}

// final is whether the client can produce no more after err. With UNKNOWN_TOPIC_ID the topic was deleted and created
// again, and the client never produces to the new one.
func final(err error) bool {
	for _, code := range []*kerr.Error{kerr.ClusterAuthorizationFailed, kerr.OutOfOrderSequenceNumber,
		kerr.UnknownProducerID, kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch, kerr.UnknownTopicID} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
