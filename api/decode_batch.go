package api

import (
	"fmt"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/field"
)

// decodeBatch reads {"checks": [...]} with up to maxBatch checks and appends them to
// into. If one of them is invalid, the whole batch is rejected and every error is named,
// such as checks[3].weight, so that clients know that none was counted.
func decodeBatch(data []byte, into []decide.Question) ([]decide.Question, error) {
	var s scanner
	if err := s.start(data); err != nil {
		return nil, err
	}
	if s.peek() != '{' {
		return nil, s.fail("a JSON object is expected")
	}
	s.pos++
	b := batchInput{qs: into}
	for n := 0; ; n++ {
		ok, err := s.more('}', n)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		name, err := s.member()
		if err != nil {
			return nil, err
		}
		if string(name) != "checks" {
			return nil, s.fail("unknown member %q", clip(string(name)))
		}
		if b.given {
			return nil, s.fail(`member "checks" appears twice`)
		}
		if err := b.checks(&s); err != nil {
			return nil, err
		}
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return b.result()
}

// batchInput collects the checks of a batch and their errors.
type batchInput struct {
	given bool
	count int
	qs    []decide.Question
	errs  []field.Problem
	ins   [2]checkInput // the present check and the previous one
}

func (b *batchInput) result() ([]decide.Question, error) {
	switch {
	case !b.given:
		b.wrong("checks", "is required")
	case b.count > maxBatch:
		b.errs = nil
		b.wrong("checks", "must not have more than %d elements", maxBatch)
	}
	if len(b.errs) > 0 {
		return nil, &field.ValidationError{Fields: b.errs}
	}
	return b.qs, nil
}

func (b *batchInput) wrong(member, format string, args ...any) {
	b.errs = append(b.errs, field.Problem{Field: member, Message: fmt.Sprintf(format, args...)})
}

// maxBatchErrors is the maximum number of errors in the response to a batch.
const maxBatchErrors = 100

func (b *batchInput) checks(s *scanner) error {
	b.given = true
	if s.peek() != '[' {
		b.wrong("checks", "must be an array")
		return s.skip(1)
	}
	s.pos++
	for n := 0; ; n++ {
		ok, err := s.more(']', n)
		if err != nil || !ok {
			return err
		}
		b.count++
		if s.peek() != '{' {
			if len(b.errs) < maxBatchErrors {
				b.wrong(fmt.Sprintf("checks[%d]", n), "must be an object")
			}
			if err := s.skip(2); err != nil {
				return err
			}
			continue
		}
		in, before := &b.ins[n&1], &b.ins[(n+1)&1]
		*in = checkInput{list: "checks", element: n + 1, before: &before.text}
		if err := in.read(s, 2); err != nil {
			return err
		}
		if n >= maxBatch {
			continue
		}
		b.qs = append(b.qs, decide.Question{})
		in.question(limiter.OpTake, &b.qs[len(b.qs)-1])
		if len(b.errs) < maxBatchErrors {
			b.errs = append(b.errs, in.errs...)
		}
	}
}
