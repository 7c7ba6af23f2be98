package fleet_test

import (
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/fleet"
	"sluice/internal/history"
	"sluice/internal/testenv"
)

func TestRights_ThoseDocumentedAreEnoughForEverything(t *testing.T) {
	url := testenv.Redis(t).DocumentedUser(t)
	speaker, _ := bus(t, url, "sl:")
	_, listener := bus(t, url, "sl:")
	meet(t, listener, speaker)
	p := announce(t, url, "sl:")
	eventually(t, "the node has announced itself", p.Connected)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	l := loads(t, url, "sl:")
	if err := l.Put(t.Context(), "a", 1, time.Minute); err != nil {
		t.Error(err)
	}
	if v, _ := reports(t, l); v[0] != 1 {
		t.Errorf("read %v", v)
	}
	open, err := fleet.NewReservations(fleet.ReservationOptions{Client: client(t, url), Prefix: "sl:"})
	if err != nil {
		t.Fatal(err)
	}
	change(t, open, &decide.ListChange{Name: "a.1", MS: 60_000, Body: []byte("{}"), Units: map[string]int64{"rule": 1}})
	if body, _, err := open.Find(t.Context(), "a"); err != nil || string(body) != "{}" {
		t.Errorf("found %s, %v", body, err)
	}
	if bodies, _, err := open.Page(t.Context(), "", 1); err != nil {
		t.Errorf("a page of %d, %v", len(bodies), err)
	}
	if units, err := open.Units(t.Context()); err != nil || units["rule"] != 1 {
		t.Errorf("open are %v, %v", units, err)
	}
	if _, err := open.Due(t.Context(), 1); err != nil {
		t.Error(err)
	}
	change(t, open, &decide.ListChange{Op: decide.ListSettle, Name: "a.1", MS: 1})
	change(t, open, &decide.ListChange{Op: decide.ListRemove, Name: "a.1"})
	secrets(t, newSecret(t, url, newClock()), false)
	b := history.NewRedisBoard(client(t, url), "sl:")
	if err := b.Append(t.Context(), "recent", []string{"a line"}, 1); err != nil {
		t.Error(err)
	}
	if err := b.Post(t.Context(), []history.Entry{{Table: "t", Field: "f", Value: "v", TTL: time.Minute}}); err != nil {
		t.Error(err)
	}
	if _, err := b.Recent(t.Context(), "recent", 0, 1); err != nil {
		t.Error(err)
	}
	if got, err := b.Read(t.Context(), []string{"t"}); err != nil || got[0]["f"] != "v" {
		t.Errorf("read %v, %v", got, err)
	}
	if err := b.Drop(t.Context(), "t", []string{"f"}); err != nil {
		t.Error(err)
	}
}
