package script

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// recordedCall is one line of testdata/answers.jsonl: a script call of an earlier
// version, what it answered, and what it stored.
type recordedCall struct {
	Now      int64
	Entity   string
	Requests []recordedRequest
	Stored   map[string]any // keys whose value changed; nil for gone
}

type recordedRequest struct {
	Op    limiter.Op
	ID    string
	Keep  int64
	Asks  [][]int64 // place, kind, code of the algorithm, count, window, extra, weight, look
	Part  bool
	Whole string
	Name  string

	Refused string
	Kind    int64 // see batch.lua
	At      int64
	// Limits has for each ask allowed, remaining, retry-after, reset, delay,
	// refunded; of a stored answer capacity and rate; of a part what it booked.
	Limits [][]int64
}

// request is what a caller would have asked.
func (r *recordedRequest) request(entity string) *limiter.Request {
	req := &limiter.Request{Op: r.Op, ID: r.ID, Keep: r.Keep}
	for _, a := range r.Asks {
		known := algorithms[a[2]]
		l := limiter.Limit{Algorithm: known.algorithm, Align: known.align, Count: a[3], Window: a[4]}
		switch l.Algorithm {
		case limiter.FixedWindow:
			l.Anchor = a[5]
		case limiter.SlidingWindowBuckets:
			l.Buckets = a[5]
		default:
			l.Burst = a[5]
		}
		key := limiter.Key(fmt.Sprintf("{%s}|%d|%d", entity, a[0], a[1]))
		req.Asks = append(req.Asks, limiter.Ask{Key: key, Limit: l, Weight: a[6], Look: a[7] == 1})
	}
	return req
}

// want is the answer to r as Decode gives it.
func (r *recordedRequest) want(req *limiter.Request) (res limiter.Result, booked []Booking) {
	stored := r.Kind == kindStored || r.Kind == kindCommitted
	res = limiter.Result{Allowed: true, Replayed: stored, At: r.At}
	for i, n := range r.Limits {
		l := req.Asks[i].Limit
		d := limiter.Decision{
			Allowed: n[0] == 1, Remaining: n[1], RetryAfter: n[2], Reset: n[3], Delay: n[4], Refunded: n[5],
			Limit: l.Capacity(), Rate: l.Rate(),
		}
		if n = n[6:]; stored {
			d.Limit, d.Rate, n = n[0], n[1], n[2:]
		}
		d.Used = d.Limit - d.Remaining
		if r.Part {
			booked = append(booked, Booking{At: n[0], Weight: n[1], Base: n[2]})
		}
		res.Allowed = res.Allowed && d.Allowed
		res.Limits = append(res.Limits, d)
	}
	return res, booked
}

// stored reads a key in the form of recordedCall.Stored.
func stored(ctx context.Context, t *testing.T, c *redis.Client, key string) any {
	t.Helper()
	list := func(values []string) (out []any) {
		for _, v := range values {
			out = append(out, latin1(v))
		}
		return out
	}
	switch kind := c.Type(ctx, key).Val(); kind {
	case "none":
		return nil
	case "string":
		return latin1(c.Get(ctx, key).Val())
	case "list":
		return list(c.LRange(ctx, key, 0, -1).Val())
	case "zset":
		v, err := c.Do(ctx, "ZRANGE", key, 0, -1, "WITHSCORES").StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		return list(v)
	case "hash":
		out := map[string]any{}
		for k, v := range c.HGetAll(ctx, key).Val() {
			out[latin1(k)] = latin1(v)
		}
		return out
	default:
		t.Fatalf("%s is a %s", key, kind)
		return nil
	}
}

// logEntries is what a log holds, of its stored form or of the one in answers.jsonl: a list of "time:units" or "time",
// with "#units:entries:offset" behind it.
func logEntries(t *testing.T, v any) (out []limiter.Entry) {
	t.Helper()
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	last, _ := list[len(list)-1].(string)
	var units string
	var n int
	var offset int64
	if parts := strings.Split(last, ":"); strings.HasPrefix(last, "#") && len(parts) == 3 {
		units = parts[0]
		n, _ = strconv.Atoi(parts[1])
		offset, _ = strconv.ParseInt(parts[2], 10, 64)
	}
	if units != "" {
		for _, e := range list[:n] {
			text, _ := e.(string)
			at, w, _ := strings.Cut(text+":1", ":")
			ms, err := strconv.ParseInt(at, 10, 64)
			weight, werr := strconv.ParseInt(strings.TrimSuffix(w, ":1"), 10, 64)
			if err != nil || werr != nil {
				t.Fatal(err, werr)
			}
			out = append(out, limiter.Entry{At: ms + offset, Weight: weight})
		}
		return out
	}
	var b []byte
	for _, r := range last {
		b = append(b, byte(r))
	}
	number := func(size byte) (n int64) {
		for _, x := range b[:size] {
			n = n<<8 | int64(x)
		}
		b = b[size:]
		return n
	}
	form := byte(number(1))
	far, heavy := form%8, form/8
	base := number(7) << 8 >> 8
	if heavy > 0 {
		number(7)
	}
	for len(b) > 0 {
		e := limiter.Entry{At: base + number(far), Weight: 1}
		if heavy > 0 {
			e.Weight = number(heavy)
		}
		out = append(out, e)
	}
	return out
}

// above takes over how far the use is above the limit, which answers.jsonl does not say.
func above(want, got *limiter.Decision) {
	if want.Remaining == 0 && got.Used > want.Used {
		want.Used = got.Used
	}
}

// recordFields are the fields of a record, in its stored form, with 0 where nothing remains: in answers.jsonl that does
// not say how far the use is above the limit.
func recordFields(v any) (out []any) {
	const head, fields, settled = 5, 12, 4
	text, _ := v.(string)
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
	}
	in, asks := reader{s: string(b)}, int64(0)
	for i := range in.length() {
		var field any
		switch c := in.s[0]; {
		case c == 0xc2, c == 0xc3: // false and true
			field = in.next(1)
		case c >= 0xa0 && c < 0xc0, c == 0xd9, c == 0xda:
			field = in.text()
		default:
			n := in.integer()
			if i == 2 {
				asks = n
			}
			behind := head + fields*int(asks)
			if i >= head && i < behind && (i-head)%fields == 4 || i >= behind && (i-behind)%settled == 0 {
				n = max(0, n)
			}
			field = n
		}
		out = append(out, field)
	}
	return out
}

// withoutBirths is what was stored of a booking without the births of buckets that were reset, which stand
// behind everything else: want, if got has no more than them behind it.
func withoutBirths(want, got any) any {
	body := func(v any) string { // an array without the number of its elements
		s, _ := v.(string)
		bytes := []rune(s)
		if len(bytes) > 3 && bytes[0] == 0xdc {
			return string(bytes[3:])
		}
		return string(bytes[min(1, len(bytes)):])
	}
	if w, g := body(want), body(got); w != "" && len(g) > len(w) && strings.HasPrefix(g, w) {
		return want
	}
	return got
}

// latin1 is s with a letter for each byte, as JSON can hold it.
func latin1(s string) string {
	var out []rune
	for i := range len(s) {
		out = append(out, rune(s[i]))
	}
	return string(out)
}

// testdata/answers.jsonl has what the script answered and stored before its two arithmetics became one:
// all algorithms and operations, several limits, changed limits, parts of
// requests that span slots, clocks that go back and ahead. Never edit it. The stored
// form of a log has changed since, so what it holds is compared, and records and
// bookings have births behind them. They did not say how far the use is above a limit.
func TestScript_AnswersAndStoresWhatItAlwaysDid(t *testing.T) {
	f, err := os.Open("testdata/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	c := redis.NewClient(&redis.Options{Addr: testenv.Redis(t).Addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	s, ctx := New(), t.Context()
	if err := c.ScriptLoad(ctx, s.Source).Err(); err != nil {
		t.Fatal(err)
	}
	names := Names{Prefix: "sl:", Bucket: func(k limiter.Key) string { return "sl:" + string(k) }}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for line := 1; lines.Scan(); line++ {
		var call recordedCall
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		var requests []*Request
		for i := range call.Requests {
			r, recorded := &Request{}, &call.Requests[i]
			if recorded.Op > limiter.OpSettle { // OpApply and OpRestore have taken these numbers since
				recorded.Op += limiter.OpRestore - limiter.OpSettle
			}
			if req := recorded.request(call.Entity); recorded.Part {
				r.EncodePart(&names, req, recorded.Whole, recorded.Name)
			} else {
				r.Encode(&names, req)
			}
			requests = append(requests, r)
		}
		keys, arg := Encode(requests, func() int64 { return call.Now })
		reply, err := c.EvalSha(ctx, s.SHA, keys, arg).Text()
		if err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		Decode(reply, requests)
		for i, r := range requests {
			recorded := &call.Requests[i]
			if recorded.Refused != "" {
				if se := refusal(recorded.Refused); r.Err == nil || r.Err.Error() != se.Error() {
					t.Errorf("line %d, request %d: got %v, want %v", line, i, r.Err, se)
				}
				continue
			}
			want, booked := recorded.want(recorded.request(call.Entity))
			for i := range r.Result.Limits {
				above(&want.Limits[i], &r.Result.Limits[i])
			}
			if diff := cmp.Diff(want, r.Result); diff != "" || r.Err != nil {
				t.Errorf("line %d, request %d: %v (-want +got):\n%s", line, i, r.Err, diff)
			}
			if diff := cmp.Diff(booked, r.Booked[:len(booked)]); diff != "" {
				t.Errorf("line %d, request %d (-want +got):\n%s", line, i, diff)
			}
		}
		for key, want := range call.Stored {
			got := any(stored(ctx, t, c, key))
			if c.Type(ctx, key).Val() == "list" {
				want, got = logEntries(t, want), logEntries(t, got)
			} else if strings.Contains(key, ":r:") {
				w, g := recordFields(want), recordFields(got)
				want, got = w, g[:min(len(w), len(g))] // births stand behind
			} else if strings.Contains(key, "}:g:") {
				got = withoutBirths(want, got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("line %d, %s (-want +got):\n%s", line, key, diff)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
