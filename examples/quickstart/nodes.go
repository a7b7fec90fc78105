package main

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// connect makes the nodes. A service has one of these lines, and to change it is all
// that another client library takes. Where the service has its clients already, the
// line is goredis.Nodes(clients...), redigo.Nodes(pools...) or
// rueidis.Nodes(clients...).
func connect(client string, urls []string) ([]driver.Node, error) {
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

// nodeURLs returns the URLs that the user gave, or else those of five embedded
// nodes, which live until stop is called.
func nodeURLs(given string) (urls []string, stop func(), err error) {
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
