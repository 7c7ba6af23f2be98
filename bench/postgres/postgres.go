// Package postgres prepares a Postgres without passwords in its own folder. The commands of this
// module start it like their other servers.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Cluster is a data folder and how to run a server on it.
type Cluster struct {
	Addr string
	// Bin is the folder of Postgres's programs.
	Bin string
	// Cred is the account that the server must run as, nil for the account of this process.
	Cred *syscall.Credential
	// Program and Args start the server. SIGINT stops it.
	Program string
	Args    []string
}

// URL is the DATABASE_URL of the server.
func (c *Cluster) URL() string { return "postgres://sluice@" + c.Addr + "/postgres?sslmode=disable" }

// New creates dir and a data folder in it, for a server at a loopback address.
func New(ctx context.Context, dir, addr string) (*Cluster, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Addr: addr}
	if c.Bin, err = programs(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	// Postgres refuses to run as root.
	if os.Geteuid() == 0 {
		if c.Cred, err = ordinaryUser(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(c.Cred.Uid), int(c.Cred.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(c.Bin, "initdb"), "--pgdata", data,
		"--username", "sluice", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: c.Cred}
	initdb.Dir = dir
	if b, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, b)
	}
	c.Program = filepath.Join(c.Bin, "postgres")
	c.Args = []string{
		"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "dynamic_shared_memory_type=mmap",
	}
	return c, nil
}

// programs finds the folder of Postgres's programs, which Debian keeps out of PATH.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path) // the other programs are in the folder of the link's target
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("postgres is not installed; try make deps")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

func ordinaryUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err, gidErr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no account postgres or nobody to run Postgres as")
}
