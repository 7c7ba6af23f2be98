package fleet

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/api/decide"
)

//go:embed reservations.lua
var reservationsLua string

const (
	// reservationPlaces is into how many slots of a cluster the list of open reservations is divided.
	reservationPlaces = 16
	// reservationMargin is how much later than its end a reservation is due, because clocks of nodes differ, and
	// reservationClaim for how long a node has it to itself.
	reservationMargin, reservationClaim = time.Second, 2 * time.Second
)

// ReservationOptions configure Reservations. Client is required.
type ReservationOptions struct {
	Client redis.UniversalClient
	// Prefix is the beginning of every key.
	Prefix string
	// Clock is the time in ms since the epoch, for tests; nil is the clock of the server.
	Clock func() int64
}

// Reservations is the list of open reservations in Redis; see decide.ReservationList. It owns no goroutine and nothing
// to close.
type Reservations struct {
	opt    ReservationOptions
	script *redis.Script
}

// NewReservations returns the list.
func NewReservations(opt ReservationOptions) (*Reservations, error) {
	if opt.Client == nil {
		return nil, errors.New("fleet: Client is required")
	}
	return &Reservations{opt: opt, script: redis.NewScript(reservationsLua)}, nil
}

func (r *Reservations) keys(place int) []string {
	base := r.opt.Prefix + "{rsv:" + strconv.Itoa(place) + "}:"
	return []string{base + "e", base + "d", base + "w", base + "q", base + "u", base + "v"}
}

// placeOf is where a group's entries are.
func placeOf(group string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return int(h.Sum32() % reservationPlaces)
}

// arguments returns the arguments of the script.
func (r *Reservations) arguments(op string, args ...any) []any {
	now := ""
	if r.opt.Clock != nil {
		now = strconv.FormatInt(r.opt.Clock(), 10)
	}
	return append([]any{op, now}, args...)
}

func (r *Reservations) run(ctx context.Context, place int, op string, args ...any) *redis.Cmd {
	return r.script.Run(ctx, r.opt.Client, r.keys(place), r.arguments(op, args...)...)
}

func groupOf(name string) string {
	group, _, _ := strings.Cut(name, ".")
	return group
}

// Write implements decide.ReservationList, in one round trip, or two if a server does not know the script.
func (r *Reservations) Write(ctx context.Context, changes []*decide.ListChange) {
	if len(changes) == 0 || r.write(ctx, r.script.EvalSha, changes) {
		return
	}
	r.write(ctx, r.script.Eval, changes) // all of them: a change that is made twice is made once
}

// evaluate runs a script by its hash or by its text.
type evaluate func(ctx context.Context, on redis.Scripter, keys []string, args ...any) *redis.Cmd

// write reports whether every server knew the script.
func (r *Reservations) write(ctx context.Context, run evaluate, changes []*decide.ListChange) (known bool) {
	p := r.opt.Client.Pipeline()
	commands := make([]*redis.Cmd, len(changes))
	for i, c := range changes {
		group := groupOf(c.Name)
		var args []any
		switch c.Op {
		case decide.ListPut:
			units, err := json.Marshal(c.Units)
			if c.Err = err; err != nil {
				continue
			}
			args = r.arguments("put", c.Name, group, c.MS+reservationMargin.Milliseconds(), c.Body, units,
				c.Version)
		case decide.ListSettle:
			args = r.arguments("settle", c.Name, c.MS)
		default:
			args = r.arguments("remove", c.Name, group, c.Version)
		}
		commands[i] = run(ctx, p, r.keys(placeOf(group)), args...)
	}
	_, _ = p.Exec(ctx) // each command has its error
	known = true
	for i, command := range commands {
		if command != nil {
			changes[i].Err = command.Err()
			known = known && !redis.HasErrorPrefix(changes[i].Err, "NOSCRIPT")
		}
	}
	return known
}

// Find implements decide.ReservationList.
func (r *Reservations) Find(ctx context.Context, group string) (body []byte, several bool, err error) {
	keys := r.keys(placeOf(group))
	name, err := r.opt.Client.HGet(ctx, keys[3], group).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, false, nil
	case err != nil || name == "":
		return nil, err == nil, err
	}
	body, err = r.opt.Client.HGet(ctx, keys[1], name).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return body, false, err
}

// Due implements decide.ReservationList.
func (r *Reservations) Due(ctx context.Context, most int) (due []decide.DueEntry, err error) {
	for place := 0; place < reservationPlaces && len(due) < most; place++ {
		found, err := r.run(ctx, place, "due", most-len(due), reservationClaim.Milliseconds()).StringSlice()
		if err != nil {
			return due, err
		}
		for i := 0; i+2 < len(found); i += 3 {
			version, err := strconv.ParseInt(found[i+1], 10, 64)
			if err != nil {
				return due, err
			}
			due = append(due, decide.DueEntry{Name: found[i], Version: version, Body: []byte(found[i+2])})
		}
	}
	return due, nil
}

// Page implements decide.ReservationList. A place in the list is the number of a slot, a time and a name.
func (r *Reservations) Page(ctx context.Context, after string, most int) (bodies [][]byte, next string, err error) {
	place, at, name := 0, "0", ""
	if after != "" {
		parts := strings.SplitN(after, ":", 3)
		if place, err = strconv.Atoi(parts[0]); err != nil || len(parts) != 3 || place < 0 || place >= reservationPlaces ||
			strings.Trim(parts[1], "0123456789") != "" || parts[1] == "" {
			return nil, "", nil
		}
		at, name = parts[1], parts[2]
	}
	found, err := r.run(ctx, place, "page", at, name, most).StringSlice()
	if err != nil || len(found) < 2 {
		return nil, "", err
	}
	for _, body := range found[2:] {
		bodies = append(bodies, []byte(body))
	}
	switch {
	case found[1] != "":
		return bodies, fmt.Sprintf("%d:%s:%s", place, found[0], found[1]), nil
	case place+1 < reservationPlaces:
		return bodies, fmt.Sprintf("%d:0:", place+1), nil
	}
	return bodies, "", nil
}

// Units implements decide.ReservationList.
func (r *Reservations) Units(ctx context.Context) (map[string]int64, error) {
	sum := map[string]int64{}
	for place := range reservationPlaces {
		some, err := r.opt.Client.HGetAll(ctx, r.keys(place)[4]).Result()
		if err != nil {
			return nil, err
		}
		for rule, text := range some {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			sum[rule] += min(n, math.MaxInt64-sum[rule])
		}
	}
	return sum, nil
}
