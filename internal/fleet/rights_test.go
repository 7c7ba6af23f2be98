package fleet_test

import (
	"testing"
	"time"

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
