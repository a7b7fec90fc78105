// Package redlocktest runs Redis nodes inside a test or a program, and breaks
// them on demand: no server to install, no client to choose.
//
//	func TestSettleSurvivesTwoNodes(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			nodes := redlocktest.StartInBubble(t, 5)
//			locker, err := redlock.New(nodes.Drivers())
//			…
//			defer locker.Close() // a bubble waits for all that runs in it
//			nodes[:2].Stop()
//			nodes[2].Take("orders:42", time.Minute) // somebody else has it there
//			time.Sleep(10 * time.Second) // in no real time; leases expire on the dot
//		})
//	}
//
// [Start] makes nodes that listen on 127.0.0.1, for a client of your own;
// [StartInBubble] makes nodes without a listener, for a testing/synctest bubble;
// [New] is Start for programs. The servers are miniredis. They serve what locks
// need, and neither ACLs, memory limits and replication nor WAITAOF: test those on
// a real server.
//
// What a client with its library's defaults needs to reach a node at [Node.Addr]:
//
//   - go-redis, redigo: nothing.
//   - rueidis: ClientOption.DisableCache, as with any server that does not have
//     CLIENT TRACKING. The adapter's Open and FromOptions set it.
//
// [Node.Dial] says what they need in a bubble.
package redlocktest
