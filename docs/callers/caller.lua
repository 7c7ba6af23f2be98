-- Asks Sluice in the access phase of OpenResty, with lua-resty-http.
local cjson, http = require "cjson.safe", require "resty.http"

local client = http.new()
client:set_timeouts(50, 50, 100) -- ms: to connect, send and read
local response = client:request_uri(os.getenv("SLUICE_SERVER") .. "/ratelimit/check", {
  method = "POST",
  headers = { ["Content-Type"] = "application/json", ["Sluice-Timeout-Ms"] = "100",
    Authorization = "Bearer " .. os.getenv("SLUICE_TOKEN") },
  body = cjson.encode({ method = ngx.req.get_method(), route = ngx.var.uri, ip = ngx.var.remote_addr }),
})
local answer = response and response.status == 200 and cjson.decode(response.body)
if not answer then
  ngx.log(ngx.ERR, "Sluice did not answer") -- the request passes; return 503 if that is worse for you
  return
end
for name, value in pairs(answer.headers) do ngx.header[name] = value end
if not answer.allowed then
  ngx.status = answer.status
  ngx.header["Content-Type"] = "application/problem+json"
  ngx.print(cjson.encode(answer.body))
  return ngx.exit(answer.status)
end
