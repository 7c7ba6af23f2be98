package home

import (
	"context"
	"testing"

	"sluice/limiter"
)

// hooked is a store that does something after it has decided the first take of a key.
type hooked struct {
	limiter.Store
	key   limiter.Key
	after func()
}

func (h *hooked) DoAll(ctx context.Context, calls []limiter.Call) {
	h.Store.DoAll(ctx, calls)
	for i := range calls {
		if after := h.after; after != nil && calls[i].Request.Asks[0].Key == h.key {
			h.after = nil
			after()
		}
	}
}

// A repeat in another region, while the first is under way, does not rely on a charge that is given back.
func TestStore_ARepeatMeanwhileDoesNotRelyOnWhatIsGivenBack(t *testing.T) {
	w := onMemory(t, names...)
	a, b := ask(at("eu", 0), 10, 1), ask(at("us", 0), 10, 1)
	var second limiter.Result
	h := &hooked{Store: w["eu"].opt.Store, key: a.Key}
	w["eu"].opt.Store = h
	h.after = func() { // the first has taken a, and will get no answer about b
		w["us"].loseAnswers(true)
		second = w["us"].do(t, limiter.OpTake, "x", a, b)
	}
	var first limiter.Result
	err := w["eu"].Do(t.Context(), &limiter.Request{Op: limiter.OpTake, ID: "x", Asks: []limiter.Ask{a, b}}, &first)
	if err == nil || !second.Allowed {
		t.Fatalf("the first %v %v, the second %v", first.Allowed, err, second.Allowed)
	}
	if left(t, w, a) != 9 || left(t, w, b) != 9 {
		t.Errorf("the repeat was admitted, %d and %d of 10 are left", left(t, w, a), left(t, w, b))
	}
}
