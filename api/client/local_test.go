package client

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// localCase is a case of testdata/local_limit.json. The clients of other languages read the same table.
type localCase struct {
	Name  string      `json:"name"`
	Limit int64       `json:"limit"`
	MS    int64       `json:"window_ms"`
	Burst int64       `json:"burst"` // 0: as much as the limit
	Steps []localStep `json:"steps"`
}

// localStep is one check of one key, and what its bucket says.
type localStep struct {
	AtMS         int64 `json:"at_ms"` // after localEpoch
	Weight       int64 `json:"weight"`
	Allowed      bool  `json:"allowed"`
	Remaining    int64 `json:"remaining"`
	Used         int64 `json:"used"`
	ResetMS      int64 `json:"reset_ms"`
	RetryAfterMS int64 `json:"retry_after_ms"`
}

// localEpoch is the instant of the steps with at_ms 0, in ms since 1970.
const localEpoch = 1_800_000_000_000

func TestLocalLimit_DecidesTheWorkedCases(t *testing.T) {
	raw, err := os.ReadFile("testdata/local_limit.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []localCase
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			var now time.Time
			limit := &LocalLimit{Limit: tt.Limit, Burst: tt.Burst, Window: time.Duration(tt.MS) * time.Millisecond}
			x, err := newLocalLimiter(limit, func() time.Time { return now })
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.Steps {
				now = time.UnixMilli(localEpoch + want.AtMS)
				d := x.take(&Check{User: "u"}, want.Weight)
				got := localStep{AtMS: want.AtMS, Weight: want.Weight, Allowed: d.Allowed, Remaining: d.Remaining,
					Used: d.Used, ResetMS: d.Reset, RetryAfterMS: d.RetryAfter}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("step %d (-table +client):\n%s", i, diff)
				}
			}
		})
	}
}

// A bucket that never drains is in use for good, so room for other keys is not made from it.
func TestLocalLimit_KeepsABucketThatNeverDrains(t *testing.T) {
	now := time.UnixMilli(localEpoch)
	x, err := newLocalLimiter(&LocalLimit{Burst: 1, Window: time.Second, MaxKeys: 1}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if d := x.take(&Check{User: "a"}, 1); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	now = now.Add(time.Hour)
	x.take(&Check{User: "b"}, 1)
	if d := x.take(&Check{User: "a"}, 1); d.Allowed {
		t.Error("a bucket that never drains was forgotten and begins anew")
	}
}
