package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// year is the window of every rule: nothing drains during a soak, so a bucket holds all units
// that were spent.
const year = 365 * 24 * 3600 * 1000

// meanWeight is the mean of the weights 1, 2 and 3 that clients send.
const meanWeight = 2

// class is one kind of key: the rules that apply to it and how its clients
// behave.
type class struct {
	name      string
	algorithm string
	failMode  string
	// ids: every request has an id. So a request without an answer is repeated, and the records of the store show which
	// requests were applied.
	ids bool
	// wide adds a second rule that all users share, in another slot.
	wide bool
	// direct: the clients send the limit.
	direct bool
	// edited: the rule is edited during the soak.
	edited bool
	// lease: clients take leases and release them. They are not part of the sum, because nothing
	// stays spent.
	lease bool
}

// classes has every algorithm with every fail mode, and the special classes.
var classes = func() []class {
	var out []class
	for i, algorithm := range []string{
		"fixed_window", "sliding_window_log", "sliding_window_counter", "sliding_window_buckets",
		"token_bucket", "gcra", "leaky_bucket", "leaky_queue",
	} {
		for j, mode := range []string{"open", "closed", "local"} {
			out = append(out, class{name: strings.ReplaceAll(algorithm, "_", "-") + "." + mode, algorithm: algorithm,
				failMode: mode, ids: (i+j)%2 == 0})
		}
	}
	return append(out,
		class{name: "two-rules.open", algorithm: "sliding_window_counter", failMode: "open", ids: true, wide: true},
		class{name: "edited.open", algorithm: "fixed_window", failMode: "open", ids: true, edited: true},
		class{name: "direct.closed", algorithm: "gcra", failMode: "closed", ids: true, direct: true},
		class{name: "leases.local", algorithm: "concurrency", failMode: "local", ids: true, lease: true},
	)
}()

// ruleOf identifies the class and the part of a rule. The direct class has its window in place of the rule's id.
type ruleOf struct {
	class int
	wide  bool
}

// createRules creates the rules through the API and returns them by id.
func createRules(ctx context.Context, s *settings, addr string) (map[string]ruleOf, error) {
	byID := map[string]ruleOf{}
	for i, c := range classes {
		if c.direct {
			byID[fmt.Sprint("w", int64(year))] = ruleOf{class: i}
			continue
		}
		id, err := createRule(ctx, addr, c.name, "user", &c, s.limit)
		if err != nil {
			return nil, err
		}
		byID[id] = ruleOf{class: i}
		if !c.wide {
			continue
		}
		if id, err = createRule(ctx, addr, c.name+".all", "global", &c, s.limit*int64(s.users)); err != nil {
			return nil, err
		}
		byID[id] = ruleOf{class: i, wide: true}
	}
	return byID, nil
}

func createRule(ctx context.Context, addr, name, scope string, c *class, limit int64) (string, error) {
	body := fmt.Sprintf(`{"name":%q,"scope":%q,"route":%q,"algorithm":%q,"limit":%d,"window_ms":%d,"fail_mode":%q}`,
		name, scope, "/"+c.name, c.algorithm, limit, year, c.failMode)
	status, doc, err := send(ctx, http.MethodPost, "http://"+addr+"/ratelimit/rules", body)
	if err != nil {
		return "", err
	}
	if status != http.StatusCreated {
		return "", fmt.Errorf("create %s answered %d: %s", name, status, doc)
	}
	var rule struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal(doc, &rule); err != nil {
		return "", err
	}
	return strconv.FormatInt(rule.ID, 10), nil
}

func send(ctx context.Context, method, url, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return answer(req)
}

// question returns the body of one check.
func (c *class) question(user string, weight, limit int64, id string) string {
	named := ""
	if id != "" {
		named = fmt.Sprintf(`,"request_id":%q`, id)
	}
	if c.direct {
		return fmt.Sprintf(`{"key":%q,"limit":%d,"window_ms":%d,"algorithm":%q,"fail_mode":%q,"weight":%d%s}`,
			user, limit, year, c.algorithm, c.failMode, weight, named)
	}
	return fmt.Sprintf(`{"route":%q,"user":%q,"weight":%d%s}`, "/"+c.name, user, weight, named)
}
