package storetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"sluice/limiter"
)

//go:embed testdata/vectors.json
var embeddedVectors []byte

// vectorCase is one worked case of a vectors file.
type vectorCase struct {
	ID       string          `json:"id"`
	Note     string          `json:"note"`
	Tags     []string        `json:"tags"`
	Limits   []vectorLimit   `json:"limits"`
	Requests []vectorRequest `json:"requests"`
	Expect   []*vectorAnswer `json:"expect"`
}

type vectorLimit struct {
	Algorithm string `json:"algorithm"`
	Limit     int64  `json:"limit"`
	WindowMS  int64  `json:"window_ms"`
	Burst     *int64 `json:"burst"`
	Align     string `json:"align"`
	AnchorMS  int64  `json:"anchor_ms"`
	Buckets   *int64 `json:"buckets"`
}

type vectorRequest struct {
	Op     string        `json:"op"`
	TMS    *int64        `json:"t_ms"`
	Weight *int64        `json:"weight"`
	ID     string        `json:"id"`
	Limits []vectorLimit `json:"limits"`
}

// vectorAnswer holds what is expected; nil fields are not compared.
type vectorAnswer struct {
	Allowed      *bool           `json:"allowed"`
	Remaining    *int64          `json:"remaining"`
	RetryAfterMS *int64          `json:"retry_after_ms"`
	ResetMS      *int64          `json:"reset_ms"`
	DelayMS      *int64          `json:"delay_ms"`
	Refunded     *int64          `json:"refunded"`
	Limits       []*vectorAnswer `json:"limits"`
}

func (c *vectorCase) bounds() bool { return slices.Contains(c.Tags, "bounds") }

// loadVectors returns the embedded cases and, if the environment names one, the
// cases of another file after them.
func loadVectors() (map[string][]vectorCase, error) {
	files := map[string][]vectorCase{}
	cases, err := parseVectors("vectors.json", embeddedVectors)
	if err != nil {
		return nil, err
	}
	files["vectors.json"] = cases
	path := os.Getenv("SLUICE_VECTORS")
	if path == "" {
		return files, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("SLUICE_VECTORS: %w", err)
	}
	if cases, err = parseVectors(path, data); err != nil {
		return nil, err
	}
	files[path] = cases
	return files, nil
}

// parseVectors reads a vectors file strictly: an unknown member is an error that
// names the file and the case.
func parseVectors(file string, data []byte) ([]vectorCase, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s: no cases", file)
	}
	seen := map[string]bool{}
	cases := make([]vectorCase, len(raw))
	for i := range raw {
		var name struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw[i], &name); err != nil || name.ID == "" {
			return nil, fmt.Errorf("%s: case number %d has no id", file, i+1)
		}
		if seen[name.ID] {
			return nil, fmt.Errorf("%s: case %s appears twice", file, name.ID)
		}
		seen[name.ID] = true
		if err := strictDecode(raw[i], &cases[i]); err != nil {
			return nil, fmt.Errorf("%s: case %s: %w", file, name.ID, err)
		}
		if err := cases[i].check(); err != nil {
			return nil, fmt.Errorf("%s: case %s: %w", file, name.ID, err)
		}
	}
	return cases, nil
}

func strictDecode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data")
	}
	return nil
}

// check reports cases that cannot run.
func (c *vectorCase) check() error {
	if len(c.Limits) == 0 {
		return errors.New("no limits")
	}
	if len(c.Requests) != len(c.Expect) {
		return fmt.Errorf("%d requests but %d expectations", len(c.Requests), len(c.Expect))
	}
	for i, r := range c.Requests {
		if err := r.check(len(c.Limits)); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if e := c.Expect[i]; e != nil && e.Limits != nil && len(e.Limits) != len(c.Limits) {
			return fmt.Errorf("expectation %d: %d limits, the case has %d", i, len(e.Limits), len(c.Limits))
		}
	}
	return nil
}

func (r *vectorRequest) check(limits int) error {
	if r.TMS == nil {
		return errors.New("no t_ms")
	}
	switch r.Op {
	case "":
		if r.Weight == nil {
			return errors.New("no weight")
		}
	case "refund", "release", "renew":
		if r.ID == "" {
			return fmt.Errorf("%s without an id", r.Op)
		}
	case "rule":
		if len(r.Limits) != limits {
			return fmt.Errorf("rule with %d limits, the case has %d", len(r.Limits), limits)
		}
	default:
		return fmt.Errorf("unknown op %q", r.Op)
	}
	return nil
}

// limit converts to a limiter.Limit with defaults.
func (v *vectorLimit) limit() (limiter.Limit, error) {
	a, err := limiter.ParseAlgorithm(v.Algorithm)
	if err != nil {
		return limiter.Limit{}, fmt.Errorf("algorithm %q: %w", v.Algorithm, err)
	}
	l := limiter.Limit{Algorithm: a, Count: v.Limit, Window: v.WindowMS, Anchor: v.AnchorMS}
	if v.Align != "" {
		if l.Align, err = limiter.ParseAlign(v.Align); err != nil {
			return limiter.Limit{}, fmt.Errorf("align %q: %w", v.Align, err)
		}
	}
	if a.Bucketed() {
		l.Burst = l.Count
	}
	if v.Burst != nil {
		l.Burst = *v.Burst
	}
	if a.Traits().Setting == limiter.SettingBuckets {
		l.Buckets = limiter.DefaultBuckets
	}
	if v.Buckets != nil {
		l.Buckets = *v.Buckets
	}
	return l, nil
}
