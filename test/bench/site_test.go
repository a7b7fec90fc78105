package bench

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/test/proxy"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// nodes is the number of servers where nothing else is said.
const nodes = 5

// A site is servers on this machine.
type site []*redisserver.Server

func startSite(b *testing.B, count int) (s site) {
	for range count {
		s = append(s, redisserver.Start(b))
	}
	return s
}

func (s site) addrs() (addrs []string) {
	for _, server := range s {
		addrs = append(addrs, server.Addr)
	}
	return addrs
}

// empty deletes all keys, and makes the records of the restart guard old enough. The second FLUSHALL deletes what a
// server that was stopped has found in its buffers.
func (s site) empty(b *testing.B) {
	for _, server := range s {
		server.Ask("FLUSHALL")
		server.Ask("FLUSHALL")
	}
	check(b, ripe.Servers(b.Context(), s.addrs(), memory.Settings{Longest: ttl}, ""))
}

// info adds up a field that all servers report.
func (s site) info(field string) (sum float64) {
	pattern := regexp.MustCompile(`(?m)^` + field + `:([0-9.]+)`)
	for _, server := range s {
		sum += must(strconv.ParseFloat(pattern.FindStringSubmatch(server.Ask("INFO").Str)[1], 64))
	}
	return sum
}

// cpu is the processor time that the servers have taken so far.
func (s site) cpu() time.Duration {
	return time.Duration((s.info("used_cpu_sys") + s.info("used_cpu_user")) * float64(time.Second))
}

// sides runs do for each variant over each client in turn, on empty servers.
func (s site) sides(b *testing.B, variants func(client string) []string, do func(b *testing.B, c contender)) {
	for _, client := range clients {
		for _, lib := range variants(client) {
			b.Run("client="+client+"/lib="+lib, func(b *testing.B) {
				s.empty(b)
				do(b, contender{client, lib})
			})
		}
	}
}

// A trouble is what is wrong with the last nodes: strike begins the trouble, and lift ends the trouble.
type trouble struct {
	name   string
	silent int // nodes that do not answer at all
	strike func() (lift func())
}

// none is the state in which all nodes are well.
var none = trouble{"none", 0, func() func() { return func() {} }}

// hung is the last n servers, stopped.
func (s site) hung(n int) trouble {
	return trouble{strconv.Itoa(n) + "-hung", n, func() func() {
		var thaws []func()
		for _, server := range s[len(s)-n:] {
			thaws = append(thaws, server.Freeze())
		}
		time.Sleep(callTimeout + 100*time.Millisecond) // longer than every time-out: all callers have noticed
		return func() {
			for _, thaw := range thaws {
				thaw()
			}
			for _, server := range s {
				server.Ask("PING")
			}
			time.Sleep(200 * time.Millisecond) // a server that has just woken up has more in its buffers
		}
	}}
}

// Proxies are ways to the servers of a site, which can be long. The proxies are a process of their own: what they
// cost is no part of what a client costs.
type proxies struct {
	*child
	addrs []string
}

func startProxies(b *testing.B, s site) proxies {
	c := startChild(b, "proxies", s.addrs())
	return proxies{c, answer[[]string](b, c)}
}

// A detour is an order to the proxies: to let each way to the last nodes take so much longer.
type detour struct {
	Nodes         int
	Delay, Jitter time.Duration
}

// farther is a trouble in which a round trip to the last n nodes takes d longer, or up to d longer.
func (p proxies) farther(b *testing.B, n int, d time.Duration, upTo bool) trouble {
	order, name := detour{Nodes: n, Delay: d / 2}, strconv.Itoa(n)+"-farther-"+d.String()
	if upTo {
		order, name = detour{Nodes: n, Jitter: d / 2}, strconv.Itoa(n)+"-farther-up-to-"+d.String()
	}
	return trouble{name, 0, func() func() {
		ask[bool](b, []*child{p.child}, order)
		return func() { ask[bool](b, []*child{p.child}, detour{Nodes: n}) }
	}}
}

func serveProxies(orders *json.Decoder, answers *json.Encoder) {
	var proxies []*proxy.Proxy
	var addrs []string
	for _, target := range next[[]string](orders) {
		p := must(proxy.New(target))
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	tell(answers, addrs)
	for orders.More() {
		order := next[detour](orders)
		for _, p := range proxies[len(proxies)-order.Nodes:] {
			p.Delay(order.Delay)
			p.Jitter(order.Jitter)
		}
		tell(answers, true)
	}
}

// A child is another process that runs this program for one of its parts. A child is told in JSON what to do,
// answers in JSON, and ends with its input.
type child struct {
	orders  *json.Encoder
	answers *json.Decoder
}

// parts are what a child can do. Each part first reads what startChild was given.
var parts = map[string]func(orders *json.Decoder, answers *json.Encoder){
	"proxies": serveProxies, "crowd": serveCrowd, "service": serveService,
}

// partKey is the variable of the environment that names a child's part.
const partKey = "QUORUMLOCK_BENCH_PART"

// serve is the whole of a child.
func serve(part string) {
	parts[part](json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout))
}

// startChild starts a child that ends with the benchmark at the latest.
func startChild(b *testing.B, part string, spec any) *child {
	command := exec.CommandContext(context.Background(), must(os.Executable())) //nolint:gosec // this program
	command.Env = append(os.Environ(), partKey+"="+part)
	command.Stderr = os.Stderr
	in, out := must(command.StdinPipe()), must(command.StdoutPipe())
	check(b, command.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = command.Wait() // what a child has to say about its end stands in stderr
	})
	c := &child{json.NewEncoder(in), json.NewDecoder(out)}
	check(b, c.orders.Encode(spec))
	return c
}

// ask gives an order to all children, and returns their answers.
func ask[T any](b *testing.B, all []*child, order any) (answers []T) {
	for _, c := range all {
		check(b, c.orders.Encode(order))
	}
	for _, c := range all {
		answers = append(answers, answer[T](b, c))
	}
	return answers
}

func answer[T any](b *testing.B, c *child) (value T) {
	b.Helper()
	check(b, c.answers.Decode(&value))
	return value
}

// next is what a child is told next.
func next[T any](orders *json.Decoder) (value T) {
	if err := orders.Decode(&value); err != nil {
		os.Exit(1) // whoever gave the orders has gone
	}
	return value
}

func tell(answers *json.Encoder, value any) {
	if err := answers.Encode(value); err != nil {
		os.Exit(1) // likewise
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// must is for what cannot fail here, and for children.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// sized is long, or short with -short, in which the figures mean nothing.
func sized[T any](long, short T) T {
	if testing.Short() {
		return short
	}
	return long
}
