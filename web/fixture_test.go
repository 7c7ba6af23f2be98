package web_test

import (
	"testing"

	"go.uber.org/goleak"

	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// chromium is the one browser of this test binary, started by the first test
// that needs it.
var chromium *browsertest.Browser

// binary is this test binary; its browser stops after the last test.
type binary struct{ m *testing.M }

func (b binary) Run() int {
	defer func() {
		if chromium != nil {
			chromium.Close()
		}
	}()
	return b.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(binary{m}) }

// world is a console with canned data that ends with the test.
func world(t testing.TB, kind webtest.Kind) *webtest.World {
	t.Helper()
	w, err := webtest.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Guard.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}
