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
		{"straight", Call{Host: "localhost:8080", Open: true}, 0},
		{"no open call", Call{Host: "localhost:8080"}, NoCredentials},
		{"no open call, forwarded", Call{Host: "localhost:8080", Forwarded: true}, NoCredentials},
		{"another name", Call{Host: "sluice.example", Open: true}, NotOpen},
		{"forwarded", Call{Host: "localhost:8080", Forwarded: true, Open: true}, NotOpen},
		{"another site", Call{Host: "localhost:8080", OtherSite: true, Open: true}, NotOpen},
		{"a token that does not exist", Call{Host: "localhost:8080", Authorization: []string{"Bearer slk_x"}},
			UnknownToken},
	} {
		_, err := gate.Admit(try.call, ScopeCheck)
		var refused *Refusal
		if errors.As(err, &refused); (refused == nil) != (try.want == 0) || refused != nil && refused.Reason != try.want {
			t.Errorf("%s: got %+v, want reason %d", try.name, refused, try.want)
		}
	}
	gate.OpenMode = false
	if _, err := gate.Admit(Call{Host: "localhost", Open: true}, ScopeCheck); err == nil {
		t.Error("not in open mode, and let in without a token")
	}
}

func TestKeyring_TheLocalSecretEndsWithTheFirstToken(t *testing.T) {
	secret, hash := NewSecret()
	other, otherHash := NewSecret()
	local := NewKeyring(nil).WithLocal(hash)
	if !local.Open() || local.Len() != 0 || local.Live(time.Now()) != 0 {
		t.Error("the local secret counts as a token")
	}
	token, err := local.Find(secret, time.Now())
	if err != nil || token.Name != LocalName || !token.Local || !token.Permits(ScopeAdmin) {
		t.Errorf("the local secret: %v, %v", token, err)
	}
	if _, err := local.Find(other, time.Now()); !errors.Is(err, ErrUnknown) {
		t.Errorf("another secret: %v", err)
	}
	now := time.Now()
	for name, first := range map[string]Token{"a token": {ID: 1, Hash: otherHash},
		"a revoked one": {ID: 1, Hash: otherHash, RevokedAt: &now}} {
		if _, err := NewKeyring([]Token{first}).WithLocal(hash).Find(secret, now); !errors.Is(err, ErrUnknown) {
			t.Errorf("after %s: %v", name, err)
		}
	}
	if (*Keyring)(nil).WithLocal(hash) != nil {
		t.Error("a keyring that is not loaded has the local secret")
	}
}
