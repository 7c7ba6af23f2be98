package kafkasink

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic that is deleted and created again gets events again, without a restart.
func TestTopic_IsDeletedAndCreatedAgain(t *testing.T) {
	c := fake(t)
	f := newSink(t, c.ListenAddrs(), Options{})
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	f.write(100)
	f.flush()
	if _, err := admin.DeleteTopic(t.Context(), topicName); err != nil {
		t.Fatal(err)
	}
	f.write(100)
	f.flush()
	f.want(100, map[string]int64{"refused": 100}, 0)
	if _, err := admin.CreateTopic(t.Context(), 4, -1, nil, topicName); err != nil {
		t.Fatal(err)
	}
	for n := 0; f.totals().Delivered == 100; n++ {
		if n == 60 {
			t.Fatalf("no event is in the new topic: %+v", f.totals())
		}
		f.pass(time.Second)
		f.write(10)
		f.flush()
	}
	before := f.totals()
	f.write(1000)
	f.close()
	if after := f.totals(); after.Delivered != before.Delivered+1000 {
		t.Errorf("of 1000 events for the new topic %d were delivered", after.Delivered-before.Delivered)
	}
	if n := int64(len(f.readBack())); n != f.totals().Delivered-100 {
		t.Errorf("the new topic has %d events, delivered to it were %d", n, f.totals().Delivered-100)
	}
	f.log.want(t, "UNKNOWN_TOPIC", "again")
}
