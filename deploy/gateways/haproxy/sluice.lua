-- Asks Sluice about a request. haproxy.cfg calls it with the profile:
--
--   http-request lua.sluice shop
--
-- The question goes to the backend "sluice" through its frontend on this machine, which
-- has the timeouts, the health checks and the connections. If no node answers, the
-- request passes.

local FRONTEND = "http://127.0.0.1:8081/ratelimit/forward/"

-- <- Headers of the client that the profile reads, in lower case.
local ASK = {"x-api-key"}

-- Headers that clients get: on allowed requests by haproxy.cfg, on denied ones from here.
local SHOW = {"ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
	"x-ratelimit-mode"}
-- Denied requests get these, too.
local DENIED = {"retry-after", "content-type"}

-- HAProxy 2.6 sends no question that is larger than its buffer (tune.bufsize, 16 KiB), and
-- one with more than 100 headers can crash it. Clients must cause neither.
local MAX_VALUES, MAX_BYTES = 50, 12 * 1024

-- <- How many requests may wait at once for X-RateLimit-Delay-Ms. While so many wait, further
-- ones pass or are denied at once.
local MOST_WAITING = 1000

local function first(headers, name)
	return headers[name] and headers[name][0]
end

-- The ends of the waits by their number. A request whose client leaves may not come back here, so a wait also ends with
-- its time.
local waits, waiting, number = {}, 0, 0

local function room(now)
	if waiting >= MOST_WAITING then
		for n, ends in pairs(waits) do
			if ends < now then
				waits[n], waiting = nil, waiting - 1
			end
		end
	end
	return waiting < MOST_WAITING
end

local function wait(answer)
	local ms, time = tonumber(first(answer.headers, "x-ratelimit-delay-ms")), core.now()
	local now = time.sec * 1000 + time.usec // 1000
	if not ms or not room(now) then
		return
	end
	number, waiting = number + 1, waiting + 1
	local mine = number
	waits[mine] = now + ms
	core.msleep(ms)
	if waits[mine] then
		waits[mine], waiting = nil, waiting - 1
	end
end

core.register_action("sluice", {"http-req"}, function(txn, profile)
	local client = txn.http:req_get_headers()
	local headers = {
		["x-forwarded-method"] = {txn.f:method()},
		["x-forwarded-uri"] = {txn.f:pathq()},
		["x-forwarded-host"] = {first(client, "host") or ""},
		["x-forwarded-for"] = {txn.f:src()},
	}
	local values, bytes = 0, #txn.f:pathq() + #(first(client, "host") or "")
	for _, name in ipairs(ASK) do
		if client[name] then
			headers[name] = {}
			for i = 0, #client[name] do
				table.insert(headers[name], client[name][i])
				values, bytes = values + 1, bytes + #name + #client[name][i]
			end
		end
	end
	if values > MAX_VALUES or bytes > MAX_BYTES then
		txn:done(txn:reply{status = 400})
		return
	end
	local answer = core.httpclient():get{url = FRONTEND .. profile, headers = headers, timeout = 200}

	if not answer or not first(answer.headers, "x-sluice") or answer.status == 500 then
		return -- fail-open: not Sluice answered, but HAProxy
	end
	local problem = first(answer.headers, "content-type") == "application/problem+json"
	if (answer.status == 400 or answer.status == 431) and not problem then
		txn:done(txn:reply{status = 400}) -- the client's headers are malformed or too long
		return
	end
	if answer.status == 400 or answer.status == 401 or answer.status == 404 then
		txn:Alert("Sluice refused the question: " .. answer.body)
		txn:done(txn:reply{status = 500})
		return
	end
	wait(answer)
	if answer.status == 200 then
		for _, name in ipairs(SHOW) do
			if first(answer.headers, name) then
				txn:set_var("txn.sluice_" .. name:gsub("-", "_"), first(answer.headers, name))
			end
		end
		return
	end
	local reply = txn:reply{status = answer.status, body = answer.body}
	for _, names in ipairs({SHOW, DENIED}) do
		for _, name in ipairs(names) do
			if first(answer.headers, name) then
				reply:add_header(name, first(answer.headers, name))
			end
		end
	end
	txn:done(reply)
end, 1)
