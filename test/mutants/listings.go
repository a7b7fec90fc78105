package main

// What status lists: in parts, at a rate, in bounded memory, and each lock once.
var listings = []mutant{
	wrong("a listing asks a node for each lock by itself",
		in("survey.read", replace(`slices.Chunk(keys, chunk)`, `slices.Chunk(keys, 1)`)), inListing),
	wrong("a listing remembers all locks that it has seen",
		in("seen.add", never(`len(s.hashes) == s.bound`)), inListing),
	wrong("a lock is listed by each node that has it",
		in("seen.add", never(`ok`)), inListing),
	wrong("a lock that is not remembered is listed by each node that has it",
		in("survey.elsewhere", always(`f.once`)), inListing),
	wrong("a semaphore that is not remembered is listed by each of its slots",
		in("survey.elsewhere", never(`slot != f.slot-1`)), inListing),
	wrong("a lock that a scan has missed is left to that scan",
		in("survey.elsewhere", never(`f.once`)), inListing),
	wrong("a node is asked for locks faster than the rate",
		in("survey.read", drop(`v.asked(`)), inListing),
	wrong("a node is scanned faster than the rate",
		in("survey.list", drop(`v.asked(`)), inListing),
	wrong("a listing goes on when nobody looks any more",
		in("inspect.StatusParts", drop(`cancel()`)), inListing),
}

var inListing = suite{pkg: "./inspect", run: "PageOfLocks|Yielded|FoundOnce|GetsBack|NoMoreThanTheRate"}
