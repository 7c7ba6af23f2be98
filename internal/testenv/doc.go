// Package testenv starts real servers for tests: redis-server, a Redis cluster
// and Postgres, each on a free loopback port with its files in a temporary
// directory. Only test files import it.
//
// A server belongs to the test that asked for it and stops with that test;
// shared ones (SharedRedis, SharedCluster, Postgres) belong to the test binary and stop in
// Main. Servers are stopped by process id, never by name, and the kernel ends
// them with the test binary if that dies first, so that a panic or a timeout
// leaves nothing running.
//
// A missing server program fails the test and names the Debian package; it
// never skips. One worked example:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestStore_SurvivesRestart(t *testing.T) {
//		srv := testenv.Redis(t, "--maxmemory", "64mb")
//		store := open(t, srv.URL()) // redis://127.0.0.1:23817/0
//		srv.Kill()
//		srv.Restart() // the same port, empty
//		...
//	}
package testenv
