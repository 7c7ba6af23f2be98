package access

import (
	"errors"
	"testing"
	"time"
)

func TestGate_OpenModeIsForThisMachineItself(t *testing.T) {
	var tokens Current
	tokens.Store(NewKeyring(nil))
	gate := Gate{Tokens: &tokens, OpenMode: true, Now: time.Now}
	for _, try := range []struct {
		name string
		call Call
		want Reason // 0 is let in
	}{
		{"straight", Call{Host: "localhost:8080"}, 0},
		{"another name", Call{Host: "sluice.example"}, NotOpen},
		{"forwarded", Call{Host: "localhost:8080", Forwarded: true}, NotOpen},
		{"another site", Call{Host: "localhost:8080", OtherSite: true}, NotOpen},
		{"a token that does not exist", Call{Host: "localhost:8080", Authorization: []string{"Bearer slk_x"}},
			UnknownToken},
	} {
		_, err := gate.Admit(try.call, ScopeCounters)
		var refused *Refusal
		if errors.As(err, &refused); (refused == nil) != (try.want == 0) || refused != nil && refused.Reason != try.want {
			t.Errorf("%s: got %+v, want reason %d", try.name, refused, try.want)
		}
	}
	gate.OpenMode = false
	if _, err := gate.Admit(Call{Host: "localhost"}, ScopeCheck); err == nil {
		t.Error("not in open mode, and let in without a token")
	}
}
