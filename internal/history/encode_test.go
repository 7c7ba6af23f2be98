package history

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDecodeRows_RefusesWhatNoProcessWrites, because what it takes is stored, added up and shown.
func TestDecodeRows_RefusesWhatNoProcessWrites(t *testing.T) {
	const hour = 495_000
	at := time.Unix(hour*3600, 0)
	rowOf := func(s slots) LiveRow { return LiveRow{Writer: 7, Rule: "charges", Hour: hour, Data: s.pack()} }
	topsOf := func(tops Tops) LiveRow {
		r := rowOf(slots{0: {Figures{Allowed: 1}, 1}})
		r.Tops = packTops(tops, 1000)
		return r
	}
	trialOf := func(c TrialCounts) LiveRow {
		return LiveRow{Writer: 7, Rule: Trial{1, 2}.name(), Hour: hour, Data: c.pack()}
	}
	one := rowOf(slots{0: {Figures{Allowed: 1}, 1}, 59: {Figures{Denied: maxCount, Use: maxUse + 1}, -1}})
	doubled, wrongSum := one, one
	slot0 := appendSlot(nil, 0, &slot{Figures{Allowed: 1}, 1})
	doubled.Data = append(slots{0: {Figures{Allowed: 1}, 1}}.pack(), slot0...)
	wrongSum.Data = append(appendSlot([]byte{packedSlots}, sumSlot, &slot{Figures{Allowed: 100}, 1}), slot0...)
	var many []TopEntry
	for range topKeys + 1 {
		many = append(many, TopEntry{Key: "a", Allowed: 1})
	}
	ranks := make(Distinct, distinctRegisters)
	ranks[3] = maxRank + 1
	for name, rows := range map[string][]LiveRow{
		"a row twice":        {one, rowOf(slots{1: {Figures{Allowed: 1}, 1}})},
		"minute 60":          {rowOf(slots{60: {Figures{Allowed: 1}, 1}})},
		"a minute twice":     {doubled},
		"another sum":        {wrongSum},
		"a count":            {rowOf(slots{0: {Figures{Allowed: math.MaxInt64}, 1}})},
		"a peak":             {rowOf(slots{0: {Figures{Allowed: 1}, math.MaxInt64 - 1}})},
		"a use":              {rowOf(slots{0: {Figures{Allowed: 1, Use: maxUse + 2}, 1}})},
		"many keys":          {topsOf(Tops{ByRoute: {Entries: many}})},
		"a count of a key":   {topsOf(Tops{ByKey: {Entries: []TopEntry{{Key: "a", Over: math.MaxInt64}}}})},
		"a variance":         {topsOf(Tops{ByKey: {Entries: []TopEntry{{Key: "a", Variance: math.MaxInt64}}}})},
		"a rest":             {topsOf(Tops{ByTenant: {Rest: math.MaxInt64}})},
		"a rank":             {topsOf(Tops{ByKey: {Denied: ranks}})},
		"a sketch":           {topsOf(Tops{ByKey: {Denied: ranks[:7]}})},
		"a count of a trial": {trialOf(TrialCounts{Seen: math.MaxInt64, First: at})},
		"a year beyond JSON": {trialOf(TrialCounts{Seen: 1, First: time.UnixMilli(math.MaxInt64)})},
		"a damaged trial":    {{Writer: 7, Rule: Trial{1, 2}.name(), Hour: hour, Data: []byte{packedTrial, 1}}},
	} {
		if got, err := DecodeRows(EncodeRows(rows), 2); !errors.Is(err, ErrRows) {
			t.Errorf("%s: %+v, %v; want an error", name, got, err)
		}
	}
	if _, err := DecodeRows(EncodeRows([]LiveRow{one, trialOf(TrialCounts{Compared: 1, First: at})}), 1); err == nil {
		t.Error("two rows were taken where one was allowed")
	}
}

// TestDecodeRows_TakesWhatAProcessWrites, however much it decided, and no message is larger than MaxBody.
func TestDecodeRows_TakesWhatAProcessWrites(t *testing.T) {
	const hour = 495_000
	full := slots{}
	for n := range minutesAnHour {
		var all allFigures
		for i := range all {
			all[i] = maxCount
		}
		all[NumFigures] = maxUse + 1
		full[n] = slot{all.figures(), maxCount}
	}
	top := Top{Rest: maxTopCount}
	for i := range topKeys {
		key := strings.Repeat(string(rune('a'+i)), maxKeyBytes)
		top.Entries = append(top.Entries, TopEntry{key, maxTopCount, maxTopCount, maxTopCount, maxVariance})
	}
	keys := top
	keys.Denied = make(Distinct, distinctRegisters)
	keys.Denied[0] = maxRank
	tops := packTops(Tops{ByKey: keys, ByRoute: top, ByTenant: top}, topKeys)
	var rows []LiveRow
	for i := range int64(MaxWritten - 1) {
		rows = append(rows, LiveRow{math.MaxInt64>>1 - i, strings.Repeat("r", 63), hour, full.pack(), tops})
	}
	// The only request in an hour may be seen in the hour before it and compared in this one.
	trial := TrialCounts{Compared: 1, First: time.Unix(hour*3600, 0)}
	rows = append(rows, LiveRow{1, Trial{1, 2}.name(), hour, trial.pack(), packTops(Tops{}, topKeys)})
	b := EncodeRows(rows)
	if len(b) > MaxBody {
		t.Errorf("%d bytes, more than MaxBody", len(b))
	}
	if got, err := DecodeRows(b, MaxWritten); err != nil || len(got) != MaxWritten {
		t.Errorf("%d rows, %v", len(got), err)
	}
	w := Writer{opt: WriterOptions{Unsent: filepath.Join(t.TempDir(), "unsent")}}
	if err := os.WriteFile(w.opt.Unsent, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.load(); len(got) != MaxWritten {
		t.Errorf("%d rows of the file", len(got))
	}
}
