-- Asks Sluice in the access phase of nginx with the Lua module, or of OpenResty, with lua-resty-http.
-- nginx clears the environment of its workers: nginx.conf needs "env SLUICE_SERVER; env SLUICE_TOKEN; env TIMEOUT;".
local cjson, http = require "cjson.safe", require "resty.http"

-- ask returns the answer and its status, or nil and why there was no answer in time.
local function ask(check)
  local server, token = os.getenv("SLUICE_SERVER"), os.getenv("SLUICE_TOKEN")
  if not server then return nil, "SLUICE_SERVER is not set, see the env lines of nginx.conf" end
  local timeout = math.ceil(1000 * tonumber(os.getenv("TIMEOUT") or "0.1"))
  local headers = { ["Content-Type"] = "application/json", ["Sluice-Timeout-Ms"] = tostring(math.min(timeout, 1000)) }
  if token and token ~= "" then headers.Authorization = "Bearer " .. token end
  local client = http.new()
  client:set_timeouts(timeout, timeout, timeout) -- to connect, send and read; the connection is kept open afterwards
  local response, err = client:request_uri(server .. "/ratelimit/check",
    { method = "POST", headers = headers, body = cjson.encode(check) })
  if not response then return nil, err end
  if response.status >= 400 and response.status < 500 then return response.body, response.status end
  local answer = response.status == 200 and cjson.decode(response.body)
  return answer or nil, answer and 200 or "status " .. response.status
end

local answer, status = ask({ method = ngx.req.get_method(), route = ngx.var.uri, ip = ngx.var.remote_addr })
if not answer then
  ngx.log(ngx.ERR, "Sluice did not answer: ", status) -- the request passes; return 503 if that is worse for you
  return
elseif status ~= 200 then
  ngx.log(ngx.ERR, "the question is wrong: ", answer)
  return ngx.exit(500)
end
for name, value in pairs(answer.headers) do ngx.header[name] = value end
if not answer.allowed then
  ngx.status = answer.status
  ngx.header["Content-Type"] = "application/problem+json"
  ngx.print(cjson.encode(answer.body))
  return ngx.exit(answer.status)
end
