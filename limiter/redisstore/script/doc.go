// Package script is the Lua script that decides requests in Redis, and the wire
// between it and Go. It opens no connection: the caller sends what it encodes.
//
//	r := &script.Request{}
//	r.Encode(&names, &request)                            // a limiter.Request, when it is accepted
//	keys, arg := script.Encode([]*script.Request{r}, nil) // one call carries many
//	reply := … EVALSHA s.SHA len(keys) keys… arg …
//	script.Decode(reply, []*script.Request{r})            // r.Result or r.Err
//
// The *.lua files are put together by script.go, in its order. batch.lua is the
// page to read first: it describes what goes in and what comes out. codes.go
// lists the numbers that both sides use; the Lua files call them by their names.
package script
