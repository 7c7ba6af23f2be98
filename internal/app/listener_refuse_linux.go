package app

import (
	"net"

	"golang.org/x/sys/unix"
)

// refuseNew makes the kernel drop the first packet (SYN) of every new connection to
// l. Existing connections stay, and handshakes that are under way finish. Closing a
// listener resets the connections that the kernel accepted and the program did not;
// after refuseNew there are soon none. Clients resend the packet a second later and
// are refused once the listener is closed.
func refuseNew(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	const flags, syn, ack = 13, 0x02, 0x10 // the byte of a TCP header with its flags
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: syn},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},          // drop
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff}, // keep all of it
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}); err != nil {
		return err
	}
	return set
}
