package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"sluice/internal/usage"
	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/match"
)

// Paths of statements.
const (
	usagePath        = "/ratelimit/usage"
	usageRestorePath = usagePath + "/restore"
)

// mostPeriods is the largest number of periods in one answer.
const mostPeriods = 100

// Usage has the statements of what keys spent; usage.Database implements it.
type Usage interface {
	Usage(ctx context.Context, q usage.Query) ([]usage.Row, error)
	UsagePeriods(ctx context.Context, rule int64, most int) ([]int64, error)
	UsageTotals(ctx context.Context, rule int64, key string, periods []int64) ([]usage.Total, error)
}

// UsageRestorer charges what counters lack of statements; usage.Recorder implements it.
type UsageRestorer interface {
	Restore(ctx context.Context, from usage.Place, dry bool) (usage.Restored, error)
}

// usageRow is a line of a statement: of one key by key, of all keys or the one asked for by period.
type usageRow struct {
	Period string `json:"period"`
	Key    string `json:"key,omitempty"`
	Keys   int64  `json:"keys,omitempty"`
	Spent  int64  `json:"spent"`
	SeenMS int64  `json:"seen_ms,omitempty"`
}

type usagePage struct {
	Rule          string     `json:"rule"`
	Usage         []usageRow `json:"usage"`
	NextPageToken string     `json:"next_page_token"`
}

// periodWord writes the start of a period.
func periodWord(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// getUsage sends a page of the statement of a rule in force.
func (s *Server) getUsage(c echo.Context) error {
	q, err := parseQuery(c, "rule", "period", "key", "by", "format", "page_size", "page_token")
	if err != nil {
		return err
	}
	size := q.pageSize()
	q.oneOf("by", "key", "period")
	q.oneOf("format", "json", "csv")
	rule := s.keptRule(q)
	at := s.deps.Now()
	if text := q.values.Get("period"); text != "" {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			q.wrong("period", "must be an instant in the period, such as 2026-11-01T00:00:00Z")
		}
	}
	after, err := base64.RawURLEncoding.DecodeString(q.values.Get("page_token"))
	if err != nil || !utf8.Valid(after) || bytes.IndexByte(after, 0) >= 0 { // which no key has, and PostgreSQL refuses
		q.wrong("page_token", "must be a next_page_token from a response")
	}
	key := ""
	if text := q.values.Get("key"); text != "" && rule != nil {
		b, err := s.deps.Checker.Set().FindBucket(rule, text, at)
		switch {
		case err != nil:
			q.wrong("key", err.Error())
		case b.Key == "":
			q.wrong("key", "must have its hash in full")
		default:
			row, _ := usage.RowOf(b.Key)
			key = row.Key
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	page := usagePage{Rule: rule.Rule.Name, Usage: []usageRow{}}
	if q.values.Get("by") == "period" {
		err = s.usageByPeriod(c.Request().Context(), &page, rule.Rule.ID, key, size)
	} else {
		err = s.usageByKey(c.Request().Context(), &page, usage.Query{Rule: rule.Rule.ID,
			Period: rule.Base(at.UnixMilli()).Anchor, Key: key, After: string(after), Most: size + 1})
	}
	switch {
	case err != nil:
		return err
	case q.values.Get("format") == "csv":
		return writeUsageCSV(c, &page)
	}
	return writeJSON(c, http.StatusOK, page)
}

// keptRule returns the rule in force of the parameter rule, its name or id, nil after an error.
func (s *Server) keptRule(q *query) (c *match.Compiled) {
	text, set := q.values.Get("rule"), s.deps.Checker.Set()
	if text == "" {
		q.wrong("rule", "is required")
		return nil
	}
	if set != nil {
		if c = set.Named(text); c == nil {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil {
				c = set.Get(id)
			}
		}
	}
	if c == nil || !c.Limit.PerPeriod {
		q.wrong("rule", "must be the name or id of a rule in force with keep_periods")
		return nil
	}
	return c
}

func (s *Server) usageByKey(ctx context.Context, page *usagePage, want usage.Query) error {
	rows, err := s.deps.Usage.Usage(ctx, want)
	if err != nil {
		return err
	}
	if len(rows) == want.Most {
		rows = rows[:want.Most-1]
		page.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(rows[len(rows)-1].Key))
	}
	for i := range rows {
		r := &rows[i]
		page.Usage = append(page.Usage, usageRow{Period: periodWord(r.Period), Key: match.DisplayKey(limiter.Key(r.Key)),
			Spent: r.Spent, SeenMS: r.Seen})
	}
	return nil
}

func (s *Server) usageByPeriod(ctx context.Context, page *usagePage, rule int64, key string, most int) error {
	periods, err := s.deps.Usage.UsagePeriods(ctx, rule, min(most, mostPeriods))
	if err != nil {
		return err
	}
	totals, err := s.deps.Usage.UsageTotals(ctx, rule, key, periods)
	if err != nil {
		return err
	}
	of := map[int64]usage.Total{}
	for _, t := range totals {
		of[t.Period] = t
	}
	for _, p := range periods {
		if t, ok := of[p]; ok {
			page.Usage = append(page.Usage, usageRow{Period: periodWord(p), Keys: t.Keys, Spent: t.Spent})
		}
	}
	return nil
}

// writeUsageCSV writes a page as CSV. The token of the next page is a header.
func writeUsageCSV(c echo.Context, page *usagePage) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	if page.NextPageToken != "" {
		h.Set("Sluice-Next-Page-Token", page.NextPageToken)
	}
	c.Response().WriteHeader(http.StatusOK)
	w := csv.NewWriter(c.Response())
	_ = w.Write([]string{"period", "key", "keys", "spent", "seen_ms"}) // Error says what failed
	for _, r := range page.Usage {
		_ = w.Write([]string{r.Period, chars.Cell(r.Key), strconv.FormatInt(r.Keys, 10), strconv.FormatInt(r.Spent, 10),
			strconv.FormatInt(r.SeenMS, 10)})
	}
	w.Flush()
	return w.Error()
}

// missingUsage is a key whose counter lacked units of its statement.
type missingUsage struct {
	Rule   string `json:"rule"`
	Period string `json:"period"`
	Key    string `json:"key"`
	Spent  int64  `json:"spent"`
	Units  int64  `json:"units"`
}

type restoredPage struct {
	DryRun        bool           `json:"dry_run"`
	Lost          bool           `json:"lost"`
	Read          int            `json:"read"`
	Missing       []missingUsage `json:"missing"`
	NextPageToken string         `json:"next_page_token"`
}

// restoreUsage charges what the counters of a page of statements lack.
func (s *Server) restoreUsage(c echo.Context) error {
	q, err := parseQuery(c, "dry_run", "page_token")
	if err != nil {
		return err
	}
	dry := q.boolean("dry_run")
	var from usage.Place
	if text := q.values.Get("page_token"); text != "" {
		data, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(data, &from) != nil || from.Lost <= 0 || from.Rule <= 0 {
			q.wrong("page_token", "must be a next_page_token from a response")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	page := restoredPage{DryRun: dry != nil && *dry, Missing: []missingUsage{}}
	done, err := s.deps.UsageRestorer.Restore(c.Request().Context(), from, page.DryRun)
	if err != nil {
		return settleProblem(err)
	}
	page.Lost, page.Read = done.Lost, done.Read
	for i := range done.Missing {
		m := &done.Missing[i]
		page.Missing = append(page.Missing, missingUsage{Rule: m.RuleName, Period: periodWord(m.Period),
			Key: match.DisplayKey(limiter.Key(m.Key)), Spent: m.Spent, Units: m.Units})
	}
	if done.Next != nil {
		data, err := json.Marshal(done.Next)
		if err != nil {
			return err
		}
		page.NextPageToken = base64.RawURLEncoding.EncodeToString(data)
	}
	return writeJSON(c, http.StatusOK, page)
}
