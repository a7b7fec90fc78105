package inspect

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// An Endpoint is how a node is reached.
type Endpoint struct {
	*driver.Endpoint
	CLI string // how a command line of redis-cli for the node begins
}

// ParseEndpoint reads a node's URL, as [driver.ParseURL] does. The command line has neither user
// nor password: what mends a node takes an administrator's.
func ParseEndpoint(raw string) (e Endpoint, err error) {
	if e.Endpoint, err = driver.ParseURL(raw); err != nil {
		return Endpoint{}, err
	}
	words := []string{usualCLI(e.Addr)}
	switch {
	case e.Network == "unix":
		words = []string{"redis-cli -s " + quote(e.Addr)}
	case e.Seeds != nil:
		words = append(words, "-c")
	case e.Master != "": // the Sentinels say where it is
		words = []string{"redis-cli -h MASTER-OF-" + quote(e.Master)}
	}
	if e.DB != 0 {
		words = append(words, "-n", fmt.Sprint(e.DB))
	}
	if e.TLS != nil {
		words = append(words, "--tls")
		u, err := url.Parse(raw)
		if err != nil {
			return Endpoint{}, err // ParseURL has read it
		}
		for _, flag := range [][2]string{{"ca", "--cacert"}, {"cert", "--cert"}, {"key", "--key"}, {"servername", "--sni"}} {
			if value := u.Query().Get(flag[0]); value != "" {
				words = append(words, flag[1], quote(value))
			}
		}
	}
	e.CLI = strings.Join(words, " ")
	return e, nil
}

// usualCLI is what begins a command line of redis-cli for a node of which no more than its name
// is known.
func usualCLI(name string) string {
	host, port, err := net.SplitHostPort(name)
	switch {
	case err != nil:
		return "redis-cli"
	case port == "6379":
		return "redis-cli -h " + quote(host)
	}
	return "redis-cli -h " + quote(host) + " -p " + quote(port)
}

// quote makes a word one of a shell's, in quotes if it needs them.
func quote(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=@%,^"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
