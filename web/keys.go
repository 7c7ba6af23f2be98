package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/view"
)

// recentOfKey is how many denials the page of a bucket shows.
const recentOfKey = 10

// keyPage shows one bucket: what is in it, what stands for it, and what was
// denied. Without rule and key it asks for them.
func (s *Server) keyPage(v *visit) error {
	q := v.QueryParams()
	if q.Get("rule") == "" {
		return s.lookup(v, http.StatusOK, q, nil)
	}
	b, errs := s.bucketOf(q)
	if errs != nil {
		return s.lookup(v, http.StatusUnprocessableEntity, q, errs)
	}
	return s.bucket(v, http.StatusOK, b, url.Values{"does": {"blocked"}}, nil)
}

// findKey leads to the page of a bucket. It is a post, so that a credential that
// someone types is in no address: the page's own has its hash.
func (s *Server) findKey(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, errs := s.bucketOf(form)
	if errs != nil {
		return s.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	return v.redirect(keyPath(b.Rule.Rule.Name, b.Name))
}

func (s *Server) lookup(v *visit, status int, form url.Values, errs []rules.FieldError) error {
	m := view.KeyPage{Lookup: view.NewForm(form, errs), Rules: s.ruleNames()}
	return v.page(status, view.KeyLookupPage(v.frame("One key", pathDenials), m))
}

// bucketOf finds the bucket of a rule and key that a form or an address names.
func (s *Server) bucketOf(form url.Values) (*rules.Bucket, []rules.FieldError) {
	c := s.inForce(strings.TrimSpace(form.Get("rule")))
	if c == nil {
		return nil, []rules.FieldError{{Field: "rule", Message: "is not the name of a rule in force"}}
	}
	b, err := s.deps.Sets.Load().FindBucket(c, form.Get("key"), s.deps.Now())
	if err != nil {
		return nil, []rules.FieldError{{Field: "key", Message: err.Error()}}
	}
	return &b, nil
}

// bucket shows a bucket, with the form for an override of it.
func (s *Server) bucket(v *visit, status int, b *rules.Bucket, form url.Values, errs []rules.FieldError) error {
	m := view.KeyPage{Bucket: b, Edit: view.NewForm(form, errs), Now: s.deps.Now()}
	name := b.Exception
	if name == "" {
		name = b.Name
	}
	recent, err := s.deps.Inspect.Denials.Denials(v.ctx, fleet.Filter{Rule: b.Rule.Rule.Name, Key: name, WholeKey: true}, recentOfKey)
	m.Recent, m.RecentUnread = recent, unread(err)
	if own := (*fleet.OwnError)(nil); errors.As(err, &own) {
		m.RecentOwn, m.RecentSince = true, own.Since
	}
	if b.Key == "" { // a recent denial may know the hash in full
		for i := range m.Recent {
			if whole, errs := s.bucketOf(url.Values{"rule": {m.Recent[i].Rule}, "key": {m.Recent[i].Bucket}}); errs == nil && whole.Exception == b.Exception && whole.Key != "" {
				b, m.Bucket = whole, whole
				break
			}
		}
	}
	s.peek(v.ctx, b, &m)
	if id := b.Override.ID; id > 0 {
		o, err := s.deps.Live.Overrides.GetOverride(v.ctx, b.Rule.Rule.ID, id)
		switch {
		case err == nil:
			m.Override = &o
		case errors.Is(err, rules.ErrNotFound): // it was lifted a moment ago
		default:
			m.OverrideUnknown = true
		}
	}
	return v.page(status, view.KeyBucketPage(v.frame("One key", pathDenials), m))
}

// peek asks what is in a bucket.
func (s *Server) peek(ctx context.Context, b *rules.Bucket, m *view.KeyPage) {
	if b.Key == "" {
		return
	}
	asks := asksOf(b)
	var res limiter.Result
	if err := s.deps.Inspect.Buckets(ctx, b.Rule, limiter.OpPeek, asks, &res); err != nil {
		s.log.Warn("the console could not look at a bucket", "error", err)
		m.Away = true
		return
	}
	for i, d := range res.Limits {
		f := view.FiguresOf(asks[i].Limit, d)
		if i == 0 {
			m.Figures = f
		} else {
			m.Candidate = f
		}
	}
}

// asksOf are the bucket of a rule and its candidate's.
func asksOf(b *rules.Bucket) []limiter.Ask {
	asks := []limiter.Ask{{Key: b.Key, Limit: b.Limit, Weight: 1}}
	if b.Candidate != "" {
		asks = append(asks, limiter.Ask{Key: b.Candidate, Limit: b.CandidateLimit, Weight: 1})
	}
	return asks
}

// resetKey forgets what was spent in a bucket.
func (s *Server) resetKey(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, errs := s.bucketOf(form)
	if errs != nil {
		return s.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	if b.Key == "" {
		return s.bucket(v, http.StatusUnprocessableEntity, b, url.Values{}, []rules.FieldError{{Field: "reset", Message: "is not possible: the hash of the key is not known in full"}})
	}
	err = s.deps.Inspect.Resets.NoteReset(v.ctx, v.actor(), b.Rule.Rule.ID, b.Name, func(ctx context.Context) error {
		var res limiter.Result
		return s.deps.Inspect.Buckets(ctx, b.Rule, limiter.OpReset, asksOf(b), &res)
	})
	var store *limiter.StoreError
	switch {
	case errors.As(err, &store):
		return s.countersAway(err)
	case err != nil:
		return err
	}
	v.flash("The bucket is empty: nothing counts as spent any more.")
	return v.redirect(keyPath(b.Rule.Rule.Name, b.Name))
}

// overrideKey blocks a key, or gives it another limit.
func (s *Server) overrideKey(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, errs := s.bucketOf(form)
	if errs != nil {
		return s.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	o := rules.Override{RuleID: b.Rule.Rule.ID, Key: b.Exception, Reason: form.Get("reason")}
	switch form.Get("does") {
	case "blocked":
		o.Blocked = true
		errs = unwanted(form, "limit")
	case "unlimited":
		o.Unlimited = true
		errs = unwanted(form, "limit")
	default:
		n, err := strconv.ParseInt(strings.TrimSpace(form.Get("limit")), 10, 64)
		if err != nil {
			errs = append(errs, rules.FieldError{Field: "limit", Message: "must be a whole number"})
		}
		o.Limit = &n
	}
	if text := form.Get("hours"); text != "" && text != "0" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 87_600 {
			errs = append(errs, rules.FieldError{Field: "hours", Message: "must be one of those offered"})
		}
		at := s.deps.Now().Add(time.Duration(n) * time.Hour)
		o.ExpiresAt = &at
	}
	if errs != nil {
		return s.bucket(v, http.StatusUnprocessableEntity, b, form, errs)
	}
	_, err = s.deps.Live.OverrideWriter.CreateOverride(v.ctx, v.actor(), o, s.deps.Sets.Load().Options())
	switch {
	case errors.Is(err, rules.ErrOverrideExists):
		return s.bucket(v, http.StatusConflict, b, form, []rules.FieldError{{Field: "does", Message: "was not done: there is an override for this key already; lift it first"}})
	case fieldsOf(err) != nil:
		return s.bucket(v, http.StatusUnprocessableEntity, b, form, fieldsOf(err))
	case errors.Is(err, rules.ErrUnavailable):
		return s.bucket(v, http.StatusServiceUnavailable, b, form, []rules.FieldError{{Field: "save", Message: problemOf(err).detail + notSaved}})
	case err != nil:
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash("Override saved.")
	return v.redirect(keyPath(b.Rule.Rule.Name, b.Name))
}

// liftOverride deletes the override of a key, unless someone changed it.
func (s *Server) liftOverride(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, errs := s.bucketOf(form)
	if errs != nil {
		return s.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	id, err := strconv.ParseInt(form.Get("id"), 10, 64)
	known := version(form)
	if err != nil || known < 1 {
		return errStale
	}
	if err := s.deps.Live.OverrideWriter.DeleteOverride(v.ctx, v.actor(), b.Rule.Rule.ID, id, known); err != nil {
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash("The override is lifted: the rule's own limit holds again.")
	return v.redirect(keyPath(b.Rule.Rule.Name, b.Name))
}
