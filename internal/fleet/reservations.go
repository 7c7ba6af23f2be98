package fleet

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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
	// Clock is the time in ms since the epoch, for tests; nil is that of the server.
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
	return []string{base + "e", base + "d", base + "w", base + "q", base + "u"}
}

// placeOf is where a group's entries are.
func placeOf(group string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return int(h.Sum32() % reservationPlaces)
}

func (r *Reservations) run(ctx context.Context, place int, op string, args ...any) *redis.Cmd {
	now := ""
	if r.opt.Clock != nil {
		now = strconv.FormatInt(r.opt.Clock(), 10)
	}
	return r.script.Run(ctx, r.opt.Client, r.keys(place), append([]any{op, now}, args...)...)
}

func groupOf(name string) string {
	group, _, _ := strings.Cut(name, ".")
	return group
}

// Put implements decide.ReservationList.
func (r *Reservations) Put(ctx context.Context, name string, life int64, body []byte, units map[string]int64) error {
	held, err := json.Marshal(units)
	if err != nil {
		return err
	}
	group := groupOf(name)
	return r.run(ctx, placeOf(group), "put", name, group, life+reservationMargin.Milliseconds(), body, held).Err()
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

// Settle implements decide.ReservationList.
func (r *Reservations) Settle(ctx context.Context, name string, after int64) error {
	return r.run(ctx, placeOf(groupOf(name)), "settle", name, after).Err()
}

// Remove implements decide.ReservationList.
func (r *Reservations) Remove(ctx context.Context, name string) error {
	return r.run(ctx, placeOf(groupOf(name)), "remove", name, groupOf(name)).Err()
}

// Due implements decide.ReservationList.
func (r *Reservations) Due(ctx context.Context, most int) (names []string, bodies [][]byte, err error) {
	for place := 0; place < reservationPlaces && len(names) < most; place++ {
		found, err := r.run(ctx, place, "due", most-len(names), reservationClaim.Milliseconds()).StringSlice()
		if err != nil {
			return names, bodies, err
		}
		for i := 0; i+1 < len(found); i += 2 {
			names, bodies = append(names, found[i]), append(bodies, []byte(found[i+1]))
		}
	}
	return names, bodies, nil
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
			sum[rule] += n
		}
	}
	return sum, nil
}
