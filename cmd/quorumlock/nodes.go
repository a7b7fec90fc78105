package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// nodes returns the URLs of the nodes, each of which is valid.
func (s *settings) nodes() (urls []string, err error) {
	code := s.fault("nodes")
	for _, given := range s.urls {
		for word := range strings.FieldsFuncSeq(given, separates) {
			if name, ok := strings.CutPrefix(word, "@"); ok {
				lines, err := readNodes(name)
				if err != nil {
					return nil, exit(exitConfig, err)
				}
				urls = append(urls, lines...)
				continue
			}
			end, err := driver.ParseURL(word)
			if err != nil {
				return nil, exit(code, err)
			}
			if end.Password+end.SentinelPassword != "" && code == exitUsage && !s.insecureArgv {
				return nil, exitf(exitUsage, "--nodes: the URL of %s has a password, which every user of this machine sees in ps: give the URLs in QUORUMLOCK_NODES, in a file (--nodes @FILE), or in a profile (--insecure-argv allows it)", end.Addr)
			}
			urls = append(urls, word)
		}
	}
	if len(urls) == 0 {
		return nil, exitf(exitConfig, "no nodes: give the URLs of an odd number of masters by --nodes, QUORUMLOCK_NODES or a profile: redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3")
	}
	return urls, nil
}

// separates says what stands between URLs: neither can be part of one.
func separates(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }

// readNodes reads a file that has one URL a line, and comments behind #.
func readNodes(name string) (urls []string, err error) {
	text, err := os.ReadFile(name) //nolint:gosec // who runs the command says which
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if _, err := driver.ParseURL(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		urls = append(urls, line)
	}
	if urls == nil {
		return nil, fmt.Errorf("%s: no URL of a node in it: want one a line", name)
	}
	return urls, nil
}

// address is a URL that is valid without what is secret in it.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "?" // ParseURL has read it
	}
	master := u.Query().Get("master")
	if u.User, u.RawQuery = nil, ""; master != "" {
		u.RawQuery = url.Values{"master": {master}}.Encode()
	}
	return u.String()
}
