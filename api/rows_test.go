package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/internal/history"
	"sluice/internal/history/historytest"
	"sluice/rules"
)

// takenRows takes figures.
type takenRows struct {
	rows []history.LiveRow
	err  error
}

func (r *takenRows) WriteStats(_ context.Context, rows []history.LiveRow) (int, error) {
	r.rows = append(r.rows, rows...)
	return min(1, len(rows)), r.err
}

// TestHistory_RowsOfAReplicaAreStored, or refused with a reason.
func TestHistory_RowsOfAReplicaAreStored(t *testing.T) {
	to := &takenRows{}
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Figures = to })
	post := func(body string) *answered {
		return f.do(http.MethodPost, history.PathOfRows, body, "Content-Type", history.MediaType)
	}
	rows := historytest.BusyHour(7, 495_000, 60, 3)
	if r := post(string(history.EncodeRows(rows))); r.status != http.StatusOK || !strings.Contains(r.body, `{"written":4,"left_out":1}`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if len(to.rows) != 5 || to.rows[1].Rule != historytest.Name(1) || string(to.rows[1].Tops) != string(rows[1].Tops) {
		t.Errorf("%d rows were stored: %+v", len(to.rows), to.rows)
	}
	many := historytest.BusyHour(7, 495_000, 1, history.MaxWritten)
	bad := rows[0]
	bad.Rule = "a\x00b"
	empty := rows[0]
	empty.Data = []byte{1}
	cut := history.EncodeRows(rows)
	for name, body := range map[string]string{
		"nothing": "", "another version": "sluice figures 2\n", "cut": string(cut[:len(cut)-9]),
		"too many": string(history.EncodeRows(many)), "a name": string(history.EncodeRows([]history.LiveRow{bad})),
		"no figures": string(history.EncodeRows([]history.LiveRow{empty})),
		"no writer":  string(history.EncodeRows([]history.LiveRow{{Rule: "a", Data: rows[0].Data}})),
	} {
		to.rows = nil
		if r := post(body); r.status != http.StatusBadRequest || len(to.rows) != 0 {
			t.Errorf("%s: %d %s, %d rows stored", name, r.status, r.body, len(to.rows))
		}
	}
	f.do(http.MethodPost, history.PathOfRows, "{}", "Content-Type", mediaJSON).want(http.StatusUnsupportedMediaType)
	to.err = rules.ErrUnavailable
	post(string(cut)).want(http.StatusServiceUnavailable)
}
