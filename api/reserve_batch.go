package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/rules/field"
)

// maxReserves is the largest number of reserves in a batch of them, and of settlements. The whole has at most maxBody
// bytes, so no place is needed.
const maxReserves = 100

// reserves is a batch of settlements and reserves.
type reserves struct {
	settlements []*decide.Settlement
	qs          []decide.Question
	ttls        []int64 // of the reserves
	errs        []field.Problem
}

// outcome is what became of one of them.
type outcome struct {
	a   decide.Answer
	err error
}

// reserveBatch settles reservations, and then reserves, each independently. The reserves can use the units that the
// settlements give back.
func (s *Server) reserveBatch(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	b, err := decodeReserves(body)
	if err != nil {
		return err
	}
	ctx, trace := c.Request().Context(), decide.TraceOf(c.Request().Header.Get("Traceparent"))
	settled := together(len(b.settlements), func(i int, a *decide.Answer) error {
		b.settlements[i].Origin.TraceID = trace
		if err := s.deps.Checker.SettleReservation(ctx, b.settlements[i], a); err != nil {
			return settleProblem(err)
		}
		return nil
	})
	if errors.Is(ctx.Err(), context.Canceled) { // nobody would have what is charged
		return ctx.Err()
	}
	reserved := together(len(b.qs), func(i int, a *decide.Answer) error {
		if q := &b.qs[i]; q.Origin.TraceID == "" {
			q.Origin.TraceID = trace
		}
		return s.deps.Checker.Reserve(ctx, &b.qs[i], b.ttls[i], a)
	})
	enc := encoder{style: s.style}
	out := s.appendOutcomes([]byte(`{"settlements":[`), &enc, c, settled)
	out = s.appendOutcomes(append(out, `],"reserves":[`...), &enc, c, reserved)
	return write(c, http.StatusOK, jsonType, append(out, "]}\n"...))
}

// together decides n at the same time, so that the store gathers their calls.
func together(n int, decideOne func(i int, a *decide.Answer) error) []outcome {
	all := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			defer decide.Contain(&all[i].err)
			all[i].err = decideOne(i, &all[i].a)
		})
	}
	wg.Wait()
	return all
}

// appendOutcomes appends {"answer": …} or {"problem": …} for each.
func (s *Server) appendOutcomes(b []byte, enc *encoder, c echo.Context, all []outcome) []byte {
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		err := all[i].err
		if err == nil {
			b = append(enc.append(append(b, `{"answer":`...), &all[i].a), '}')
			continue
		}
		var problem *reply.Problem
		var bug *decide.Panic
		if errors.As(err, &bug) {
			problem = s.panicked(reserveBatchPath, bug.Value, bug.Stack)
		} else {
			problem = s.problem(err, reserveBatchPath, http.MethodPost, c.RealIP)
		}
		b = append(append(append(b, `{"problem":`...), problem.JSON()...), '}')
	}
	return b
}

// decodeReserves reads {"settlements": [...], "reserves": [...]}. If one of them is invalid, the whole batch is
// rejected and every error is named, such as reserves[3].weight.
func decodeReserves(data []byte) (*reserves, error) {
	var s scanner
	if err := s.start(data); err != nil {
		return nil, err
	}
	if s.peek() != '{' {
		return nil, s.fail("a JSON object is expected")
	}
	s.pos++
	b := &reserves{}
	given := map[string]bool{}
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
		list := string(name)
		read := map[string]func(*scanner, int) error{"settlements": b.settlement, "reserves": b.reserve}[list]
		switch {
		case read == nil:
			return nil, s.fail("unknown member %q", clip(list))
		case given[list]:
			return nil, s.fail("member %q appears twice", list)
		}
		given[list] = true
		if err := b.list(&s, list, read); err != nil {
			return nil, err
		}
	}
	if len(given) == 0 {
		b.wrong("reserves", "is required without settlements")
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if len(b.errs) > 0 {
		return nil, &field.ValidationError{Fields: b.errs}
	}
	return b, nil
}

func (b *reserves) wrong(member, format string, args ...any) {
	if len(b.errs) < maxBatchErrors {
		b.errs = append(b.errs, field.Problem{Field: member, Message: fmt.Sprintf(format, args...)})
	}
}

// list reads one list of objects.
func (b *reserves) list(s *scanner, name string, read func(*scanner, int) error) error {
	if s.peek() != '[' {
		b.wrong(name, "must be an array")
		return s.skip(1)
	}
	s.pos++
	for n := 0; ; n++ {
		ok, err := s.more(']', n)
		switch {
		case err != nil || !ok:
			return err
		case n == maxReserves:
			b.wrong(name, "must not have more than %d elements", maxReserves)
		}
		if s.peek() != '{' || n >= maxReserves {
			if n < maxReserves {
				b.wrong(fmt.Sprintf("%s[%d]", name, n), "must be an object")
			}
			err = s.skip(2)
		} else {
			err = read(s, n)
		}
		if err != nil {
			return err
		}
	}
}

func (b *reserves) settlement(s *scanner, n int) error {
	v, err := s.objectTree(2)
	if err != nil {
		return err
	}
	d := amountReader{under: fmt.Sprintf("settlements[%d].", n)}
	one, err := d.settlement(&v)
	for _, p := range d.errs {
		b.wrong(p.Field, "%s", p.Message)
	}
	b.settlements = append(b.settlements, one)
	return err
}

func (b *reserves) reserve(s *scanner, n int) error {
	in := checkInput{reserve: true, list: "reserves", element: n + 1}
	if err := in.read(s, 2); err != nil {
		return err
	}
	b.qs = append(b.qs, decide.Question{})
	b.ttls = append(b.ttls, in.reservation(&b.qs[len(b.qs)-1]))
	if len(b.errs) < maxBatchErrors {
		b.errs = append(b.errs, in.errs...)
	}
	return nil
}
