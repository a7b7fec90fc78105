package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// delayCommand is the first argument of a run of this program that is a delay.
const delayCommand = "delay-line"

// Delay is a way to servers that is as long as somebody wants. It is a process of its
// own, so that what it costs is not among what a contender is measured by.
type Delay struct {
	*Child
	addrs []string
}

// startDelay starts a way to each of the servers, at first without any delay.
func startDelay(targets []string) (*Delay, error) {
	child, err := startChild(append([]string{delayCommand}, targets...)...)
	if err != nil {
		return nil, err
	}
	line, err := child.answer()
	if err != nil {
		return nil, fmt.Errorf("delay: %w", errors.Join(err, child.Close()))
	}
	return &Delay{child, strings.Fields(line)}, nil
}

// Addrs is where the ways begin, in the order of the servers.
func (d *Delay) Addrs() []string { return d.addrs }

// Set makes the way to server i longer by delay, there and back taken together.
func (d *Delay) Set(i int, delay time.Duration) error {
	err := d.order(i, delay)
	if err == nil {
		_, err = d.answer()
	}
	if err != nil {
		return fmt.Errorf("delay: %w", err)
	}
	return nil
}

// serveDelay is the process: it prints the addresses where the ways begin, and then
// obeys orders, each a line with a server's number and a delay, until they end.
func serveDelay(targets []string, orders io.Reader, answers io.Writer) error {
	ways := make([]*way, len(targets))
	addrs := make([]string, len(targets))
	for i, target := range targets {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
		if err != nil {
			return err
		}
		if ways[i], err = newWay(target); err != nil {
			return err
		}
		addrs[i] = listener.Addr().String()
		go ways[i].accept(listener)
	}
	if _, err := fmt.Fprintln(answers, strings.Join(addrs, " ")); err != nil {
		return err
	}
	for scanner := bufio.NewScanner(orders); scanner.Scan(); {
		var i int
		var text string
		if _, err := fmt.Sscan(scanner.Text(), &i, &text); err != nil {
			return err
		}
		delay, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		ways[i].delay.Store(int64(delay))
		if _, err := fmt.Fprintln(answers, "done"); err != nil {
			return err
		}
	}
	return nil
}
