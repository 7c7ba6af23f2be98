package fleet_test

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
	"sluice/limiter"
)

func loads(t *testing.T, url, prefix string) *fleet.LoadBoard {
	t.Helper()
	l, err := fleet.NewLoadBoard(client(t, url), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reports reads what is known of pools a, b and c.
func reports(t *testing.T, l *fleet.LoadBoard) ([]int64, []time.Duration) {
	t.Helper()
	v, left, err := l.Get(t.Context(), []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	return v, left
}

func TestLoadBoard_EveryNodeReadsTheNewestReportUntilItEnds(t *testing.T) {
	srv := testenv.SharedRedis(t)
	writer, reader := loads(t, srv.URL(), "loads:"), loads(t, srv.URL(), "loads:")
	for _, v := range []int64{900_000, 420_000} {
		if err := writer.Put(t.Context(), "b", v, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	v, left := reports(t, reader)
	if v[1] != 420_000 || left[1] <= 50*time.Second || left[1] > time.Minute || left[0] != 0 || left[2] != 0 {
		t.Errorf("got %v with %v left", v, left)
	}
	if v, left := reports(t, loads(t, srv.URL(), "elsewhere:")); v[1] != 0 || left[1] != 0 {
		t.Errorf("another prefix reads %v with %v left", v, left)
	}
	if err := writer.Put(t.Context(), "b", 1, 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the report ends", func() bool { _, left := reports(t, reader); return left[1] == 0 })
}

func TestLoadBoard_WhatIsNotAReportCountsAsNone(t *testing.T) {
	srv := testenv.SharedRedis(t)
	c := client(t, srv.URL())
	c.Set(t.Context(), "odd:load:a", "much", time.Minute)
	c.Set(t.Context(), "odd:load:b", 5, 0) // would never end
	c.Set(t.Context(), "odd:load:c", -5, time.Minute)
	if v, left := reports(t, loads(t, srv.URL(), "odd:")); v[0]+v[1]+v[2] != 0 || left[0]+left[1]+left[2] != 0 {
		t.Errorf("got %v with %v left", v, left)
	}
}

func TestLoadBoard_SayWhyRedisCannotAnswer(t *testing.T) {
	srv := testenv.Redis(t)
	l := loads(t, srv.URL(), "")
	srv.Kill()
	var se *limiter.StoreError
	if err := l.Put(t.Context(), "a", 1, time.Minute); !errors.As(err, &se) || se.Cause != limiter.CauseConnection {
		t.Errorf("put: %v", err)
	}
	if _, _, err := l.Get(t.Context(), []string{"a"}); !errors.As(err, &se) || se.Cause != limiter.CauseConnection {
		t.Errorf("get: %v", err)
	}
	if _, err := fleet.NewLoadBoard(nil, ""); err == nil {
		t.Error("made without a client")
	}
}

func TestLoadBoard_OnACluster(t *testing.T) {
	l := loads(t, testenv.SharedCluster(t).URL(), ownPrefix())
	for i, pool := range []string{"a", "b", "c"} {
		if err := l.Put(t.Context(), pool, int64(i+1), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if v, _ := reports(t, l); v[0] != 1 || v[1] != 2 || v[2] != 3 {
		t.Errorf("got %v", v)
	}
}
