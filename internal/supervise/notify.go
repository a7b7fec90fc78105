package supervise

import (
	"net"
	"time"
)

// Report tells an init system of a state, such as "READY=1" or "STATUS=…": see sd_notify(3). The
// socket is $NOTIFY_SOCKET; if it is "" nothing happens.
func Report(socket, state string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"}) // @ is an abstract one
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
