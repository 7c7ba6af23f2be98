-- Asks Sluice about a request. kong.yaml calls it from Kong's plugin post-function, after
-- authentication:
--
--   return require("sluice").new{url = "http://127.0.0.1:8080", profile = "shop", ...}
--
-- If Sluice is unreachable or slow, the request passes.

local http = require "resty.http"

-- Headers that clients get, on allowed and on denied requests.
local SHOWN = {"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
  "X-RateLimit-Mode"}

local sluice = {}

-- How many requests of this worker wait for X-RateLimit-Delay-Ms.
local waiting = 0

local function wait(answer, most)
  local ms = tonumber(answer.headers["X-RateLimit-Delay-Ms"])
  if ms and waiting < most then
    waiting = waiting + 1
    ngx.sleep(ms / 1000)
    waiting = waiting - 1
  end
end

local function pick(from)
  local headers = {}
  for _, name in ipairs(SHOWN) do
    headers[name] = from[name]
  end
  return headers
end

-- options: url, profile; token, from the environment if not set; request_headers, the headers of the client that the
-- profile reads; timeout in milliseconds, 100 if not set; most_waiting, how many requests of a worker may
-- wait at once, 1,000 if not set. While so many wait, further ones pass or are denied at once.
function sluice.new(options)
  local url = options.url .. "/ratelimit/forward/" .. options.profile
  local token = options.token or os.getenv("SLUICE_TOKEN")

  return function()
    local headers = {}
    for _, name in ipairs(options.request_headers) do
      -- One by one: get_headers returns the first 100, and a client may send a hundred others before.
      headers[name] = kong.request.get_header(name)
    end
    headers["Sluice-Token"] = token
    headers["Sluice-Timeout-Ms"] = math.min(options.timeout or 100, 1000)
    headers["X-Forwarded-Method"] = kong.request.get_method()
    headers["X-Forwarded-Uri"] = ngx.var.request_uri
    headers["X-Forwarded-Host"] = kong.request.get_host()
    headers["X-Forwarded-For"] = kong.client.get_forwarded_ip()

    local client = http.new()
    client:set_timeout(options.timeout or 100)
    local answer, err = client:request_uri(url, {method = "GET", headers = headers})
    if not answer or answer.status == 500 then
      kong.log.warn("no decision: ", err or answer.body)
      return -- fail-open
    end
    wait(answer, options.most_waiting or 1000)
    if answer.status == 200 then
      kong.ctx.shared.sluice = pick(answer.headers)
      return
    end
    -- A 400 without a problem document is about the client's headers: they are malformed.
    local refused = answer.status == 400 and answer.headers["Content-Type"] == "application/problem+json"
    if refused or answer.status == 401 or answer.status == 404 then
      kong.log.err("Sluice refused the question: ", answer.body)
      return kong.response.exit(500)
    end
    local headers = pick(answer.headers)
    headers["Content-Type"] = answer.headers["Content-Type"]
    headers["Retry-After"] = answer.headers["Retry-After"]
    return kong.response.exit(answer.status, answer.body, headers)
  end
end

-- show sends the headers of an allowed request to the client.
function sluice.show()
  for name, value in pairs(kong.ctx.shared.sluice or {}) do
    kong.response.set_header(name, value)
  end
end

return sluice
