package main

// Revocations: whom they hit, and that the holder cannot undo them.
var revocations = []mutant{
	wrong("a revocation hits whoever has the key",
		in("revoke.lua", line(`local found = holder == ARGV[1]`, `local found = holder`)), ofRevocation),
	wrong("a tombstone has an expiry of its own",
		in("revoke.lua", line(`redis.call('SET', key, ARGV[2], 'KEEPTTL')`, `redis.call('SET', key, ARGV[2])`)), ofRevocation),
	wrong("a revocation hits readers who came after those that were seen",
		in("revoke.lua", line(`found = found or expiry and tonumber(expiry) >= now`, `found = true`)), ofRevocation),
	wrong("a tombstone is shortened by another revocation",
		in("revoke.lua", line(`if left < least then`, `if left < least or least > 0 then`)), ofRevocation),
	wrong("tombstones end as the keys would have",
		in("revoker.keep", replace(`max(0, ends.Sub(v.clock.Now()))+time.Millisecond`, `0`)), inRevoking),
	wrong("a tombstone counts that was put a second time",
		in("revoker.keep", never(`v.clock.Fresh() >= before`)), inRevoking),
	wrong("a revoked holder that is renewed goes on to its deadline",
		in("Operation.revoked", never(`op.buried()`)), suite{pkg: "./redlock", run: "Revoked|Renewal"}),
	wrong("a holder ends that has tombstones at a minority",
		in("lease.Tombstones", replace(`nodes - quorum + 1`, `1`)), suite{pkg: "./redlock", run: "Revoked|Renewal"}),
	wrong("a revocation is final though one of its tombstones has ended",
		in("inspect.Revoke", replace(`r.Final = r.Took == took`, `r.Final = r.Took >= r.Need`)), inRevoking),
	wrong("tombstones last as long as the longest of them",
		in("lease.RevokedUntil", replace(`max(1, quorum-(nodes-len(ends)))`, `1`)), inRevoking),
	wrong("tombstones last no longer than the shortest of them",
		in("lease.RevokedUntil", replace(`max(1, quorum-(nodes-len(ends)))`, `len(ends)`)), inRevoking),
}

var (
	ofRevocation = suite{pkg: "./redlocktest", run: "RevokeScript"}
	inRevoking   = suite{pkg: "./inspect", run: "Tombstone|Revo|Scripts"}
)
