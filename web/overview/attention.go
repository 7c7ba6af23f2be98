package overview

import (
	"errors"

	"sluice/internal/attention"
	"sluice/internal/history"
	"sluice/web/kit"
	"sluice/web/view"
)

// maxDeniedKeys is how many denied keys the overview lists.
const maxDeniedKeys = 8

// Attention says who is denied unusually, and which keys are denied at all.
type Attention struct {
	view.Remarks
	Keys []attention.Key
	// More is how many more keys are known.
	More int
	// Unknown means that figures of this minute cannot be read. KeysUnknown means it of keys, and EditsUnknown of edits.
	Unknown, KeysUnknown, EditsUnknown bool
}

func (p *Pages) attention(v *kit.Visit) Attention {
	r := p.Attention.Report(v.Ctx)
	m := Attention{Remarks: v.Remarks(r.Findings), Keys: r.Keys[:min(len(r.Keys), maxDeniedKeys)],
		KeysUnknown: missing(r.KeysErr), EditsUnknown: r.EditsErr != nil}
	m.More = len(r.Keys) - len(m.Keys)
	live := p.Fleet.Live(v.Ctx)
	m.Unknown = live.Err != nil && !live.Own
	return m
}

// missing reports whether an error means that all figures are missing, and not only figures of other nodes.
func missing(err error) bool { return err != nil && !errors.As(err, new(*history.OwnError)) }

// floats are counts as values of a small chart.
func floats(counts []int64) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	return out
}
