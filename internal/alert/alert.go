// Package alert tells a server's refusal of a TLS handshake from other errors. Over TLS 1.3 a server
// may refuse the client's certificate only after the handshake, at the first read.
package alert

import (
	"errors"
	"net"
	"strings"
)

// Of returns the words of the alert that the server has sent ("certificate required"), or "". Package
// crypto/tls gives an alert of its own type a number over QUIC alone; over TCP the operation is all
// that tells it.
func Of(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return ""
	}
	return strings.TrimPrefix(op.Err.Error(), "tls: ")
}

// Advice says what to do about an alert, or "" where trying again may do.
func Advice(words string) string {
	switch words {
	case "certificate required", "handshake failure":
		return "the server has refused the TLS handshake: it may want a certificate of the client's (?cert=FILE&key=FILE)"
	case "expired certificate":
		return "the client's certificate has ended: renew the file that ?cert= names in the URL, or the one in the client's TLS configuration"
	case "unknown certificate authority", "bad certificate", "unknown certificate", "unsupported certificate", "revoked certificate",
		"error decrypting message", "access denied":
		return "the server does not take the client's certificate: give one that an authority has signed which the server trusts (?cert=FILE&key=FILE)"
	case "protocol version not supported", "insufficient security level":
		return "the server wants another version of TLS or other ciphers: clients speak TLS 1.2 and 1.3"
	case "unrecognized name":
		return "the server knows no such name: give the one of its certificate as ?servername= in the URL, or in the client's TLS configuration"
	}
	return ""
}
