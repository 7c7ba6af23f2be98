-- Stands in for lua-resty-http, which Debian does not have: the part that docs/callers/caller.lua uses.
local http = {}
http.__index = http

function http.new() return setmetatable({ sock = ngx.socket.tcp() }, http) end

function http:set_timeouts(connect, send, read) self.sock:settimeouts(connect, send, read) end

function http:request_uri(uri, params)
  local host, port, path = uri:match("^http://([^:/]+):(%d+)(/.*)$")
  local ok, err = self.sock:connect(host, tonumber(port))
  if not ok then return nil, err end
  local lines = { params.method .. " " .. path .. " HTTP/1.0", "Host: " .. host, "Content-Length: " .. #params.body }
  for name, value in pairs(params.headers) do table.insert(lines, name .. ": " .. value) end
  local sent, failed = self.sock:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. params.body)
  if not sent then return nil, failed end
  local answer, broken = self.sock:receive("*a")
  if not answer then return nil, broken end
  return { status = tonumber(answer:match("^HTTP/1%.%d (%d+)")), body = answer:match("\r\n\r\n(.*)$") }
end

return http
