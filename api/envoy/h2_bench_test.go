package envoy

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"sluice/internal/access"
)

// BenchmarkLoop is a call of descriptors, of 32 that are sent at once, with a store in memory. The client costs little.
func BenchmarkLoop(b *testing.B) {
	for _, by := range []way{byLoop, byGRPC} {
		b.Run(string(by), func(b *testing.B) {
			f := newFixture(b, by, append(perUser(5), boomRule()))
			conn, err := net.Dial("tcp", strings.TrimPrefix(f.conn.Target(), "passthrough:///")) //nolint:noctx // loopback
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			made := frames{t: b, token: f.secrets[access.ScopeCheck]}
			made.out = append(made.out, http2.ClientPreface...)
			made.frame(http2.FrameSettings, 0, 0, nil)
			made.out = appendWindow(made.out, 0, maxWindow-defaultWindow)
			if _, err := conn.Write(made.out); err != nil {
				b.Fatal(err)
			}
			block := made.block("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
			message := made.message(42)
			const together = 32
			buf, next := make([]byte, 64<<10), uint32(1)
			head := make([]byte, frameHead)
			b.ReportAllocs()
			for sent := 0; sent < b.N; sent += together {
				made.out = made.out[:0]
				for range together {
					made.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, next, block)
					made.frame(http2.FrameData, http2.FlagDataEndStream, next, message)
					next += 2
				}
				if _, err := conn.Write(made.out); err != nil {
					b.Fatal(err)
				}
				for ended := 0; ended < together; {
					if _, err := io.ReadFull(conn, head); err != nil {
						b.Fatal(err)
					}
					n := binary.BigEndian.Uint32(head) >> 8
					if _, err := io.ReadFull(conn, buf[:n]); err != nil {
						b.Fatal(err)
					}
					if kind := http2.FrameType(head[3]); kind == http2.FrameHeaders && head[4]&byte(http2.FlagHeadersEndStream) != 0 {
						ended++
					}
				}
			}
		})
	}
}
