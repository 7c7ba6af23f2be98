package redisstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"strings"

	"sluice/limiter/redisstore/script"
)

// NewLongWay is New with a script that sends plain takes the long way too.
func NewLongWay(opt Options) (*Store, error) {
	s, err := New(opt)
	if err == nil {
		s.script = script.NewLongWay()
	}
	return s, err
}

// countingCall replaces redis.call in kernels of lists. It adds to the number at COUNTER how many entries of a log the
// replies hold, as their size and the form in their first byte say, and how many slots, weights and sums of slots.
const countingCall = `local floor = math.floor
local function count(reply)
  if type(reply) == 'table' then
    for i = 1, #reply do count(reply[i]) end
  elseif type(reply) == 'string' and #reply > 0 and reply:byte() < 128 then
    local form = reply:byte() % 64
    local far = form % 8
    redis.call('INCRBY', 'COUNTER', floor(#reply / (far + (form - far) / 8)))
  end
end
local function call(command, ...)
  local reply = redis.call(command, ...)
  if command:sub(1, 1) == 'L' then count(reply) end
  if command == 'ZRANGE' then redis.call('INCRBY', 'COUNTER', floor(#reply / 2)) end
  if command == 'HMGET' then redis.call('INCRBY', 'COUNTER', #reply) end
  return reply
end
`

// NewCounting is New with a script that adds the number of entries of logs and slots that it reads to that at the key
// counter.
func NewCounting(opt Options, counter string) (*Store, error) {
	s, err := New(opt)
	if err != nil {
		return nil, err
	}
	source := strings.Replace(s.script.Source, "local call, floor = redis.call, math.floor\n",
		strings.ReplaceAll(countingCall, "COUNTER", counter), 1)
	sum := sha1.Sum([]byte(source)) //nolint:gosec // not a secret
	s.script = script.Script{Source: source, SHA: hex.EncodeToString(sum[:])}
	return s, nil
}
