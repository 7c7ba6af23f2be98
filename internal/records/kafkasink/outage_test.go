package kafkasink

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ten minutes without enough replicas, at 2,000 events a second, in virtual time. The other outages are shorter than
// the delivery timeout, or longer.
func TestOutage(t *testing.T) {
	produce := []kmsg.Key{kmsg.Produce}
	for name, tt := range map[string]struct {
		fault         kfake.Fault
		rate, seconds int // events a second, seconds
	}{
		"not enough replicas": {kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicas, Count: -1}, 2000, 600},
		"a minute":            {kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicas, Count: -1}, 100, 60},
		"no leader":           {kfake.Fault{Keys: produce, Err: kerr.NotLeaderForPartition, Count: -1}, 100, 180},
		"appended":            {kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1}, 100, 180},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outage(t, tt.fault, tt.rate, tt.seconds) })
		})
	}
}

// mostHeap is what the sink may take of the 64 MiB of the log: the buffers of a Log have 2 × 8 MiB.
const mostHeap = 48 << 20

func outage(t *testing.T, fault kfake.Fault, rate, seconds int) {
	network := &kfake.VirtualNetwork{}
	c := fake(t, kfake.ListenFn(network.Listen), kfake.Ports(9092, 9093, 9094))
	f := newSink(t, c.ListenAddrs(), Options{Connection: Connection{Dial: network.DialContext}})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	pass := func(seconds int) {
		for range 20 * seconds {
			f.write(rate / 20)
			<-tick.C
		}
	}
	pass(10)
	f.flush()
	before := heap()

	began := c.Fault(fault)
	for range seconds / 10 {
		pass(10)
		if now := heap(); now > before+mostHeap {
			t.Errorf("the heap grew by %d MiB", (now-before)>>20)
		}
	}
	if age := time.Since(f.Oldest()); age > 2*DeliveryTimeout && fault.Err != kerr.NotEnoughReplicasAfterAppend {
		t.Errorf("the oldest event has waited for %v", age)
	}

	began.Remove()
	ended := time.Now()
	f.log.wait(t, 2)
	if after := time.Since(ended); after > 5*time.Second {
		t.Errorf("the first event after the outage was delivered after %v", after)
	}
	pass(5)
	f.close()
	t.Logf("%+v", f.totals())
	// A broker that is no leader any more may have taken a batch before.
	if doubts := f.totals().Doubtful > 0; doubts != (fault.Err == kerr.NotLeaderForPartition) {
		t.Errorf("doubtful events: %v", doubts)
	}
	f.proves(f.readBack())
	f.log.want(t, fault.Err.Message, "again")
}

// Kafka answers slowly for two minutes, in virtual time: sooner than the client gives a connection up, and later.
func TestSlowAnswers(t *testing.T) {
	for name, takes := range map[string]time.Duration{"slow": 5 * time.Second, "too slow": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := &kfake.VirtualNetwork{}
				c := fake(t, kfake.ListenFn(network.Listen), kfake.Ports(9092, 9093, 9094))
				f := newSink(t, c.ListenAddrs(), Options{Connection: Connection{Dial: network.DialContext}})
				until, slowed := time.Now().Add(2*time.Minute), 0
				c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					if time.Now().Before(until) {
						slowed++
						c.SleepControl(func() { <-time.After(takes) })
					}
					return nil, nil, false
				})
				for range 3 * 60 {
					f.write(20)
					<-time.After(time.Second)
				}
				f.close()
				if slowed == 0 {
					t.Error("no answer was slow")
				}
				if name == "slow" {
					f.want(3*60*20, nil, 0)
				} else if got := f.totals(); got.Delivered == 0 || got.Dropped["too_old"] == 0 {
					t.Errorf("%+v", got)
				}
				f.proves(f.readBack())
			})
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
