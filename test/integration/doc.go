// Package integration runs one behaviour suite over nodes of three kinds, embedded
// ones (package redlocktest), processes of an installed server, and containers, and
// over each of the three clients.
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
