// Package nodes opens the nodes that an example is told to use by its flags --nodes
// and --client.
package nodes

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// Open is [URLs] and [Connect] in one, for a program with a single Locker.
func Open(client, given string) (list []driver.Node, stop func(), err error) {
	urls, stop, err := URLs(given)
	if err != nil {
		return nil, nil, err
	}
	list, err = Connect(client, urls)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return list, stop, nil
}

// URLs returns the URLs that the user gave, with commas between them, or else those
// of five embedded nodes, which live until stop is called.
func URLs(given string) (urls []string, stop func(), err error) {
	if given != "" {
		for url := range strings.SplitSeq(given, ",") {
			urls = append(urls, strings.TrimSpace(url))
		}
		return urls, func() {}, nil
	}
	embedded, err := redlocktest.New(5)
	if err != nil {
		return nil, nil, err
	}
	for _, addr := range embedded.Addrs() {
		urls = append(urls, "redis://"+addr)
	}
	return urls, embedded.Close, nil
}

// Connect makes the nodes, for one Locker, which closes them. A service has one of
// these lines, and to change it is all that another client library takes. Where the
// service has its clients already, the line is goredis.Nodes(clients...),
// redigo.Nodes(pools...) or rueidis.Nodes(clients...).
func Connect(client string, urls []string) ([]driver.Node, error) {
	switch client {
	case "goredis":
		return goredis.Open(urls...)
	case "redigo":
		return redigo.Open(urls...)
	case "rueidis":
		return rueidis.Open(urls...)
	}
	return nil, fmt.Errorf("--client %q: want goredis, redigo or rueidis", client)
}
