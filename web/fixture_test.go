package web_test

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// chromium is the one browser of this test binary; the first test that needs it
// starts it, and binary closes it after the last.
var chromium = sync.OnceValues(func() (*browsertest.Browser, error) {
	started.Store(true)
	return browsertest.Start()
})

var started atomic.Bool

// binary is this test binary; its browser stops after the last test.
type binary struct{ m *testing.M }

func (b binary) Run() int {
	code := b.m.Run()
	if started.Load() {
		if c, err := chromium(); err == nil {
			c.Close()
		}
	}
	return code
}

// TestMain lets more tests wait at the same time than there are processors: those in
// parallel mostly wait for a browser or for the next message of a stream. The flag
// -parallel still counts if it is given.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4")
	goleak.VerifyTestMain(binary{m})
}

// visited is a page of the gallery as it was answered.
type visited struct {
	webtest.Shown
	page webtest.Page
}

// gallery visits every page of the gallery once for all tests.
var gallery = sync.OnceValues(func() ([]visited, error) {
	var all []visited
	for _, s := range webtest.Gallery() {
		page, err := s.Visit()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, visited{s, page})
	}
	return all, nil
})

// visitGallery is gallery for a test.
func visitGallery(t *testing.T) []visited {
	t.Helper()
	all, err := gallery()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// world is webtest.Start.
func world(t testing.TB, kind webtest.Kind) *webtest.World {
	t.Helper()
	return webtest.Start(t, kind)
}
