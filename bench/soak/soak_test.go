package main

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// In a short soak every request is answered and the figures add up, whatever breaks. make soak
// runs longer.
func TestSoak_ShortOneCloses(t *testing.T) {
	t.Chdir("..") // where the program is built
	var out bytes.Buffer
	s := settings{minutes: 0.2, every: 2 * time.Second, rate: 150, clients: 8, users: 3, seed: 3,
		only: "redis-kill,redis-flush,redis-freeze,redis-client-kill,node-kill,node-restart,rule-edit"}
	if err := run(t.Context(), s, &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
}

func TestAccount_ClosesOnlyIfEveryUnitIsAccountedFor(t *testing.T) {
	named, unnamed, local := class{ids: true, failMode: "open"}, class{failMode: "open"},
		class{ids: true, failMode: "local"}
	tests := []struct {
		name string
		c    class
		a    account
		rest int64
	}{
		{"all is held", named, account{store: 7, held: 7}, 0},
		{"some was lost", named, account{store: 7, held: 3, lost: 4}, 0},
		{"degraded ones spend nothing", named, account{store: 7, open: 9, held: 7}, 0},
		{"a record says what was unheard", named, account{store: 7, held: 9, unheard: 2, doubt: 5}, 0},
		{"without a record it is left over", named, account{store: 7, held: 9, doubt: 5}, 2},
		{"without ids doubt explains it", unnamed, account{store: 7, held: 9, doubt: 5}, 0},
		{"but no more than there was", unnamed, account{store: 7, held: 9, doubt: 1}, 1},
		{"a unit that the store forgot", unnamed, account{store: 7, held: 6, doubt: 5}, 1},
		{"what was spent locally comes back", local, account{store: 7, local: 4, held: 10}, 0},
		{"but no more than that", local, account{store: 7, local: 4, held: 12}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.a.settle(&tt.c); got != tt.rest {
				t.Errorf("%d left over, want %d", got, tt.rest)
			}
		})
	}
}

func TestFaults_AreThoseOfTheList(t *testing.T) {
	if got, err := pickFaults("node-kill, rule-edit"); err != nil || len(got) != 2 || got[1].name != "rule-edit" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := pickFaults("earthquake"); err == nil {
		t.Error("an unknown fault was accepted")
	}
}
