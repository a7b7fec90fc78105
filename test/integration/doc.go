// Package integration shows that each kind of lock works over nodes of three kinds, embedded
// ones (package redlocktest), processes of an installed server, and containers, with each of
// the three clients. Beside that it tests what depends on a real server or a client: rights,
// the words of errors, connections that break, processes that end. What locks do under faults,
// and in which bounds, the tests of package redlock show in virtual time.
//
// Embedded nodes run everywhere. What else there is to run on is found out, and one line
// at the end says what has run and what to install for the rest. The environment:
//
//   - QUORUMLOCK_REQUIRE=processes,containers: a kind that is missing is a failure.
//     For processes, the drivers' tests over real servers heed it, too.
//   - QUORUMLOCK_ONLY=processes: no other kind runs. Commas separate several.
//   - QUORUMLOCK_SERVER: the server that processes run, in the drivers' tests, too; by
//     default redis-server, or valkey-server.
//   - QUORUMLOCK_IMAGE: the images that containers run, separated by commas; by
//     default one of Redis and one of Valkey, from the registry.
package integration
