package redlocktest

import (
	"io"
	"net"
)

// accept leads each connection from outside into a pipe, so that a node has one
// way in and its faults are the same with and without a listener.
func (n *Node) accept(listener net.Listener) {
	for {
		socket, err := listener.Accept()
		if err != nil {
			return // stop has closed the listener
		}
		n.bridge(socket)
	}
}

func (n *Node) bridge(socket net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pipe, err := n.dial()
	if err != nil {
		_ = socket.Close() // came while the node was being stopped
		return
	}
	n.sockets[socket] = struct{}{}
	n.work.Go(func() {
		_, _ = io.Copy(pipe, socket) // the client's end, or a cut: the same to a server
		pipe.closeWrite()
	})
	n.work.Go(func() {
		_, _ = io.Copy(socket, pipe) // fails when the client is gone
		_, _ = socket.Close(), pipe.Close()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.sockets, socket)
	})
}
