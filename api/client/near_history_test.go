package client

import (
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// admission is an admitted request, or the beginning of a window, which nothing overlaps.
type admission struct{ begins bool }

// windows says that each window admits up to a limit. Each admission counts at some instant of its call.
func windows(limit int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			count, _ := state.(int)
			if in, _ := input.(admission); in.begins {
				return true, 0
			}
			return count < limit, count + 1
		},
	}
}

// What three programs with three callers each were allowed while the windows went by: there is an instant within each
// call so that no window has more than its limit. They ask for less than that in every other window.
func TestNear_EachAdmissionFitsIntoAWindowOfItsCall(t *testing.T) {
	const window, limit, lasts = 100 * time.Millisecond, 300, 15
	s := newNearService(t, leasedRule("r", "user", "fixed_window", limit, window.Milliseconds()))
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range 3 {
		_, n := s.client(Options{})
		for caller := range 3 {
			wg.Go(func() {
				var own []porcupine.Operation
				for time.Since(start) < lasts*window {
					began := time.Now()
					if began.UnixMilli()/window.Milliseconds()%2 == 0 { // so that much is left when the window ends
						<-time.After(5 * time.Millisecond)
						began = time.Now()
					}
					a, err := n.Check(t.Context(), Check{User: "ada"})
					if err != nil {
						t.Error(err)
						break
					}
					if a.Allowed {
						own = append(own, porcupine.Operation{ClientId: 3*client + caller, Input: admission{},
							Call: began.UnixNano(), Return: time.Now().UnixNano()})
					}
				}
				mu.Lock()
				defer mu.Unlock()
				history = append(history, own...)
			})
		}
	}
	wg.Wait()
	admitted := len(history)
	for at := start.Truncate(window); at.Before(time.Now()); at = at.Add(window) {
		history = append(history, porcupine.Operation{ClientId: 9, Input: admission{begins: true}, Call: at.UnixNano(),
			Return: at.UnixNano()})
	}
	if !porcupine.CheckOperations(windows(limit), history) {
		t.Errorf("the %d admissions of %d windows do not fit into windows of %d", admitted, lasts, limit)
	}
	if admitted < limit {
		t.Errorf("%d were admitted, fewer than one window admits", admitted)
	}
	if porcupine.CheckOperations(windows(limit/2), history) {
		t.Error("the history fits into half the limit, so it does not show anything")
	}
}
