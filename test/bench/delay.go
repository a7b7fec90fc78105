package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// delayCommand is the first argument of a run of this program that is a delay.
const delayCommand = "delay-line"

// Delay is a way to servers that is as long as somebody wants. It is a process of its
// own, so that what it costs is not among what a contender is measured by.
type Delay struct {
	command *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
	addrs   []string
}

// startDelay starts a way to each of the servers, at first without any delay.
func startDelay(targets []string) (*Delay, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &Delay{command: exec.Command(self, append([]string{delayCommand}, targets...)...)} //nolint:gosec,noctx // this program; it ends with its input
	d.command.Stderr = os.Stderr
	if d.orders, err = d.command.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := d.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.answers = bufio.NewScanner(answers)
	if err := d.command.Start(); err != nil {
		return nil, err
	}
	line, err := d.answer()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.addrs = strings.Fields(line)
	return d, nil
}

// Addrs is where the ways begin, in the order of the servers.
func (d *Delay) Addrs() []string { return d.addrs }

// Set makes the way to server i longer by delay, there and back taken together.
func (d *Delay) Set(i int, delay time.Duration) error {
	if _, err := fmt.Fprintln(d.orders, i, delay); err != nil {
		return fmt.Errorf("delay: %w", err)
	}
	_, err := d.answer()
	return err
}

// Close ends the process.
func (d *Delay) Close() error {
	return errors.Join(d.orders.Close(), d.command.Wait())
}

func (d *Delay) answer() (string, error) {
	if !d.answers.Scan() {
		return "", fmt.Errorf("delay: its process has ended: %w", errors.Join(d.answers.Err(), io.ErrUnexpectedEOF))
	}
	return d.answers.Text(), nil
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
