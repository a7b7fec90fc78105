// Package drivertest is the suite that every [driver.Driver] runs. It starts a
// small RESP server of its own on the loopback, lets it misbehave in every way
// that a node can (silent, stopped, cut off, refused), and watches both what the
// driver returns and what the server received.
//
// A driver takes part with a test of about ten lines:
//
//	func TestDriver(t *testing.T) {
//		drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
//			client := mine.Dial(addr) // as users make it: with the client's defaults
//			t.Cleanup(func() { client.Close() })
//			stranger := func(ctx context.Context, args ...string) error {
//				return client.Call(ctx, args...)
//			}
//			return drivertest.Subject{Driver: minedriver.New(client), Stranger: stranger}
//		})
//	}
//
// Run the test with -race: that a driver leaves the commands alone is checked by
// the race detector as well. The suite takes a few seconds, most of which are
// deadlines that have to pass.
//
// A driver that is a [driver.Subscriber] or a [driver.Renewer] as well gets the cases for that too.
//
// Beyond the words of the contract the suite asks that an error tells how the context
// ended: a cancel is [context.Canceled] to errors.Is, and a deadline is
// [context.DeadlineExceeded] or the time-out of a socket. A driver also has to find
// its way back to a server that is well again, within five calls.
//
// Each subtest's name is the phrase that the driver has to keep. A call is late if the
// goroutine that waits for it has seen it late: where the machine has no time for the
// process, that stands still, and nothing fails for it. The figures themselves are logged
// (go test -v). What never comes is waited for a minute.
package drivertest
