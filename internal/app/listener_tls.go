package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/envoy"
	"sluice/internal/certificate"
	"sluice/internal/config"
)

var _ envoy.CertifiedConn = (*trackedConn)(nil)

// openCertificates loads the certificate and follows changes of its files. Without TLS
// it returns nil.
func openCertificates(cfg *config.Serve, host *Host, stops *stops) (*certificate.Source, error) {
	if !cfg.TLS() {
		return nil, nil //nolint:nilnil // no TLS is not an error
	}
	files := certificate.Files{Settings: certificate.Listener, Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile,
		CA: cfg.TLSClientCAFile, Trouble: host.trouble}
	source, err := certificate.Open(files, host.Log, host.Now)
	if err != nil {
		return nil, err
	}
	stops.add("TLS files", task(source.Run))
	return source, nil
}

// serverTLS is the TLS configuration of the HTTP listener. It offers HTTP/1.1 only: a gateway that keeps one HTTP/2
// connection would send all its requests to one node, and a draining node could not send it to another node between two
// requests.
func serverTLS(source *certificate.Source) *tls.Config { return tlsFor(source, "http/1.1") }

// grpcTLS is the TLS configuration of the gRPC listener.
func grpcTLS(source *certificate.Source) *tls.Config { return tlsFor(source, "h2") }

func tlsFor(source *certificate.Source, protocol string) *tls.Config {
	if source == nil {
		return nil
	}
	return source.Config(protocol)
}

// publishTLS registers the metrics of listeners with TLS.
func publishTLS(metrics prometheus.Registerer, source *certificate.Source, listeners ...*firstByteListener) {
	if source == nil {
		return
	}
	metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_tls_certificate_expiry_timestamp_seconds",
			Help: "When the TLS certificate in force expires, in seconds since 1970.",
		}, func() float64 { return float64(source.Expires().Unix()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sluice_tls_handshake_failures_total",
			Help: "Connections that ended before their TLS handshake was complete.",
		}, func() float64 {
			var n int64
			for _, l := range listeners {
				n += l.badHandshakes.Load()
			}
			return float64(n)
		}))
}

// Chains implements plain.Conn and envoy.CertifiedConn.
func (c *trackedConn) Chains() [][]*x509.Certificate {
	if c.secure == nil {
		return nil
	}
	return c.secure.VerifiedChains
}

// handshakeTimeout is how long a client has for the TLS handshake. It is as long as for
// the headers of a request.
const handshakeTimeout = readHeaderTimeout

// plainHTTP answers a request without TLS.
const plainHTTP = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This server speaks TLS: use https.\n"

// handshake performs the TLS handshake of a new connection. It reports false if that
// failed. During a drain, a handshake may take as long as a first byte.
func (f *firstByteListener) handshake(c *trackedConn, conn *tls.Conn) bool {
	until := time.Now().Add(handshakeTimeout)
	if c.SetReadDeadline(until) != nil || conn.SetWriteDeadline(until) != nil {
		return false
	}
	// The deadlines bound it.
	if err := conn.HandshakeContext(context.Background()); err != nil {
		f.badHandshakes.Add(1)
		f.log.Debug("a TLS handshake failed", "client", conn.RemoteAddr().String(), "error", err)
		var other tls.RecordHeaderError
		if errors.As(err, &other) && other.Conn != nil && other.RecordHeader[0] >= 'A' && other.RecordHeader[0] <= 'Z' {
			_, _ = io.WriteString(other.Conn, plainHTTP) // the method of a request without TLS
		}
		return false
	}
	state := conn.ConnectionState()
	c.secure = &state
	c.restart()
	return conn.SetWriteDeadline(time.Time{}) == nil
}
