package playbook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// login is an attempt to log in as ada. It returns true if the password may be checked.
func (w *World) login(t *testing.T, ip, attributes, id string) bool {
	t.Helper()
	body := fmt.Sprintf(`{"method":"POST","route":"/login","user":"ada","ip":%q,"attributes":{%s},"request_id":%q}`, ip,
		attributes, id)
	status, text, err := w.send(&request{method: http.MethodPost, path: "/ratelimit/check", body: body})
	var a struct{ Allowed bool }
	if err == nil {
		err = json.Unmarshal([]byte(text), &a)
	}
	if err != nil || status != http.StatusOK {
		t.Errorf("%d %s: %v", status, text, err)
	}
	return a.Allowed
}

// An attacker with forty addresses, who guesses from many of them at the same moment, has twenty
// guesses a day. Meanwhile the owner can always log in: from her own device, even behind one of
// his addresses, and from a new device with the code that was sent to her.
func TestLoginRecipe_AnAttackerNeitherGuessesOnNorLocksTheOwnerOut(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/recipes/login.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, serve := range map[string]func(*testing.T) *World{"memory": Serve, "redis": ServeOnRedis} {
		t.Run(name, func(t *testing.T) {
			w := serve(t)
			if err := w.PutInForce(rules); err != nil {
				t.Fatal(err)
			}
			for day := range 2 {
				if guesses := w.attack(t, day); guesses != 20 {
					t.Errorf("day %d: %d guesses, want 20", day, guesses)
				}
				w.SetTime(w.Now().Add(24 * time.Hour))
			}
		})
	}
}

// attack takes several hours and returns the number of guesses that were allowed.
func (w *World) attack(t *testing.T, day int) (guesses int) {
	const waves, addresses = 6, 40
	for wave := range waves {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for i := worker; i < addresses; i += 4 {
					for n := range 2 {
						if w.login(t, fmt.Sprintf("198.51.100.%d", i), "", fmt.Sprintf("g%d.%d.%d.%d", day, wave, i, n)) {
							mu.Lock()
							guesses++
							mu.Unlock()
						}
					}
				}
			})
		}
		wg.Wait()
		w.owner(t, fmt.Sprintf("%d.%d", day, wave))
		w.SetTime(w.Now().Add(time.Hour))
	}
	return guesses
}

// owner logs in from a known device behind the attacker's address, and from a new device
// elsewhere, where she is denied as a stranger and then proves who she is.
func (w *World) owner(t *testing.T, when string) {
	t.Helper()
	if !w.login(t, "198.51.100.7", `"device":"d-81"`, "known"+when) {
		t.Errorf("at %s the owner is locked out with her own device", when)
	}
	if w.login(t, "192.0.2.10", "", "new"+when) {
		t.Errorf("at %s a stranger passes: nothing is stopped", when)
	}
	if !w.login(t, "192.0.2.10", `"challenge":"passed"`, "proven"+when) {
		t.Errorf("at %s the owner is locked out although she proved who she is", when)
	}
}
