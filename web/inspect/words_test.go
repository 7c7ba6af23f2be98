package inspect

import (
	"strings"
	"testing"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// What a cut or the region's share has denied is not said to be a fault of Redis.
func TestBadges_SayThatARegionIsTheReason(t *testing.T) {
	for want, b := range map[string]*BucketFigures{
		"a region is cut off":       {Allowed: true, Degraded: "region"},
		"fail mode closed":          {Degraded: "closed"},
		"share of the region spent": {Known: true, Held: true},
		"overloaded":                {Overloaded: true},
	} {
		var out strings.Builder
		if err := bucketBadges(b, false).Render(t.Context(), &out); err != nil || !strings.Contains(out.String(), want) ||
			strings.Contains(out.String(), "fail mode region") {
			t.Errorf("%+v: %s, %v", b, out.String(), err)
		}
	}
	var out strings.Builder
	if err := sampleBadge(&history.Request{Mode: rules.ModeEnforce, Allowed: true, Status: 200,
		Degraded: "region"}).Render(
		t.Context(), &out); err != nil || !strings.Contains(out.String(), "200, a region is cut off") {
		t.Errorf("a recent request: %s, %v", out.String(), err)
	}
	out.Reset()
	if err := figureCells(&BucketFigures{Degraded: "region"}).Render(t.Context(), &out); err != nil ||
		!strings.Contains(out.String(), "Another region is cut off, and the rule then allows nothing.") {
		t.Errorf("without figures: %s, %v", out.String(), err)
	}
}

func TestWait_HasTwoUnitsAndIsNeverTooShort(t *testing.T) {
	for ms, want := range map[int64]string{0: "now", limiter.Never: "never", 340: "340 ms", 105_400: "1 min 46 s",
		7_200_001: "2 h 1 min"} {
		if got := Wait(ms); got != want {
			t.Errorf("Wait(%d) = %q, want %q", ms, got, want)
		}
	}
}

// A home region that is lost is not said to be a fault of this region's counter store.
func TestFigures_SayThatTheHomeRegionDidNotDecide(t *testing.T) {
	for want, b := range map[string]*BucketFigures{
		"The home region of the key, us": {Degraded: "open", Home: "us"},
		"The counter store":              {Degraded: "open"},
		"Another region is cut off":      {Degraded: "region"},
		"More requests arrive than":      {Overloaded: true, Home: "us"},
	} {
		if got := b.undecidedWords(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Explain shows of which limit a limit is a part.
func TestFigureCells_ShowTheWholeLimit(t *testing.T) {
	for whole, want := range map[int64]string{0: "", 300: "", 600: "part of 600"} {
		var page strings.Builder
		b := &BucketFigures{Known: true, Limit: 300, Whole: whole}
		if err := figureCells(b).Render(t.Context(), &page); err != nil {
			t.Fatal(err)
		}
		if got := page.String(); strings.Contains(got, "part of") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("of %d: %s", whole, got)
		}
	}
}

// A key of a divided limit says that its figures are those of a part, while the region does not have all of it.
func TestPartWords(t *testing.T) {
	for _, of := range []struct {
		shares bool
		part   int64
		want   string
	}{
		{true, 300, "The limit is the part of this region. All regions together have 600."}, {true, 600, ""},
		{false, 300, ""},
	} {
		b := match.Bucket{Rule: &match.Compiled{Shares: of.shares}, Limit: limiter.Limit{Count: 600}}
		m := KeyPage{Bucket: &b, Peeked: Peeked{Figures: &BucketFigures{Limit: of.part}}}
		if got := m.partWords(); got != of.want {
			t.Errorf("%+v: got %q", of, got)
		}
	}
}
