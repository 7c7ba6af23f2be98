package limiter

import (
	"slices"
	"testing"
)

// incomplete names what is missing from a table of traits, "" if nothing is.
func incomplete(rows []Traits) string {
	var names, titles []string
	for _, t := range rows[1:] {
		switch {
		case t.Name == "" || t.Title == "" || len(t.Kind) != 2 || t.Decay == DecayNone || t.kernel == nil:
			return "a row or a part of one"
		case slices.Contains(names, t.Name) || slices.Contains(titles, t.Title):
			return "a name of its own for " + t.Name
		case t.Slots && t.Divisible, t.Queues && t.Divisible, t.Instant && t.Decay != DecayDrain:
			return "sense in the row of " + t.Name
		case (t.Setting == SettingBurst) != (t.Decay == DecayDrain):
			return "a burst for a level that drains: " + t.Name
		}
		names, titles = append(names, t.Name), append(titles, t.Title)
	}
	return ""
}

func TestTraits_EveryAlgorithmHasARow(t *testing.T) {
	if got := incomplete(traits[:]); got != "" {
		t.Errorf("the table lacks %s", got)
	}
	if n := len(Algorithms()); n != len(traits)-3 { // without no algorithm, Ban and Tally
		t.Errorf("%d algorithms, %d rows", n, len(traits)-3)
	}
	for _, a := range Algorithms() {
		without := slices.Clone(traits[:])
		without[a] = Traits{}
		if incomplete(without) == "" {
			t.Errorf("a table without %s passes", a)
		}
	}
}

func TestTraits_AlgorithmsOfAKindShareTheirKernel(t *testing.T) {
	for _, a := range Algorithms() {
		for _, b := range Algorithms() {
			if (a.Kind() == b.Kind()) != (a.Traits().kernel == b.Traits().kernel) {
				t.Errorf("%s and %s: kinds %q and %q, kernels %T and %T",
					a, b, a.Kind(), b.Kind(), a.Traits().kernel, b.Traits().kernel)
			}
		}
	}
}

func TestTraits_OfNoAlgorithmAreEmpty(t *testing.T) {
	for _, a := range []Algorithm{0, algorithmsEnd, 255} {
		if tr := a.Traits(); a.Exists() || tr.Name != "" || tr.Kind != "" || tr.Decay != DecayNone {
			t.Errorf("algorithm %d has traits %+v", a, *tr)
		}
	}
}

func TestSettingOwners_NamesItsAlgorithms(t *testing.T) {
	for s, want := range map[Setting]string{
		SettingAlign: "fixed_window", SettingBuckets: "sliding_window_buckets",
		SettingBurst: "token_bucket, gcra, leaky_bucket and leaky_queue",
	} {
		if got := s.Owners(); got != want {
			t.Errorf("owners of setting %d: %q, want %q", s, got, want)
		}
	}
}
