package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// nodes is how many servers a cluster has.
const nodes = 5

// Cluster is five servers on this machine.
type Cluster struct {
	processes []*server.Process
}

func startCluster() (*Cluster, error) {
	c := &Cluster{}
	for range nodes {
		p, err := server.Launch()
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.processes = append(c.processes, p)
	}
	return c, nil
}

// Close ends the servers.
func (c *Cluster) Close() error {
	var errs []error
	for _, p := range c.processes {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Addrs is where the servers are.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.processes))
	for i, p := range c.processes {
		addrs[i] = p.Addr()
	}
	return addrs
}

// Flush empties the servers. The second time takes what a server that was stopped
// has found in its buffers.
func (c *Cluster) Flush() error {
	return c.each(func(conn redigo.Conn) error {
		for range 2 {
			if _, err := conn.Do("FLUSHALL"); err != nil {
				return err
			}
		}
		return nil
	})
}

// Keys counts the keys that have not expired, and finds the greatest TTL that one
// of them has left.
func (c *Cluster) Keys() (count int, left time.Duration, err error) {
	err = c.each(func(conn redigo.Conn) error {
		names, err := redigo.Strings(conn.Do("KEYS", "*")) // leaves out what has expired
		if err != nil || len(names) == 0 {
			return err
		}
		count += len(names)
		for _, name := range names {
			if err := conn.Send("PTTL", name); err != nil {
				return err
			}
		}
		ttls, err := redigo.Int64s(conn.Do(""))
		for _, ttl := range ttls {
			left = max(left, time.Duration(ttl)*time.Millisecond)
		}
		return err
	})
	return count, left, err
}

// CPU is the processor time that the servers have taken so far.
func (c *Cluster) CPU() (time.Duration, error) {
	var sum time.Duration
	err := c.each(func(conn redigo.Conn) error {
		info, err := redigo.String(conn.Do("INFO", "cpu"))
		for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, e := strconv.ParseFloat(infoField(info, field), 64)
			err = errors.Join(err, e)
			sum += time.Duration(seconds * float64(time.Second))
		}
		return err
	})
	return sum, err
}

// Commands is how many commands a server has run so far, those of scripts included, on
// average.
func (c *Cluster) Commands() (float64, error) {
	var sum float64
	err := c.each(func(conn redigo.Conn) error {
		info, err := redigo.String(conn.Do("INFO", "stats"))
		n, e := strconv.ParseFloat(infoField(info, "total_commands_processed"), 64)
		sum += n
		return errors.Join(err, e)
	})
	return sum / float64(len(c.processes)), err
}

// commandsDuring is how many more they are after work. The first of the bench's own two
// questions is among them, and taken off.
func (c *Cluster) commandsDuring(work func() error) (float64, error) {
	before, err := c.Commands()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := c.Commands()
	return after - before - 1, err
}

// Version names the servers' software.
func (c *Cluster) Version() (string, error) {
	conn, err := dial(c.processes[0].Addr())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	info, err := redigo.String(conn.Do("INFO", "server"))
	if version := infoField(info, "valkey_version"); version != "" {
		return "Valkey " + version, err
	}
	return "Redis " + infoField(info, "redis_version"), err
}

func (c *Cluster) each(do func(conn redigo.Conn) error) error {
	for _, p := range c.processes {
		conn, err := dial(p.Addr())
		if err == nil {
			err = errors.Join(do(conn), conn.Close())
		}
		if err != nil {
			return fmt.Errorf("server at %s: %w", p.Addr(), err)
		}
	}
	return nil
}

// dial connects for the bench itself, beside the contenders.
func dial(addr string) (redigo.Conn, error) {
	const timeout = 10 * time.Second
	return redigo.Dial("tcp", addr, redigo.DialConnectTimeout(timeout), redigo.DialReadTimeout(timeout), redigo.DialWriteTimeout(timeout))
}

func infoField(info, name string) string {
	found := regexp.MustCompile(`(?m)^` + name + `:(.*)$`).FindStringSubmatch(info)
	if found == nil {
		return ""
	}
	return strings.TrimSpace(found[1])
}
