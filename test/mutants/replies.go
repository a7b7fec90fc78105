package main

// Packages protocol and acquire, as far as only the tests of redlock tell: what a reply means.
var replies = []mutant{
	wrong("a node that has accepted as great a fence before is a vote",
		in("decodeFence", never(`accepted.Int != 1`))),
	wrong("a node that has lost the token behind the fence is a vote",
		in("decodeFence", never(`holder.Kind == driver.Nil`), never(`holder.Kind != driver.String`), never(`any(holder.Str) != a.Token`))),
	wrong("a number that is not above the floor is a vote",
		in("decodeFence", never(`least >= a.Fence.Number`))),
	wrong("a trim forgets what is below the floor that it asks for, not what is below one that the node has shown",
		in("AskTrim", replace(`"(" + strconv.FormatInt(seen, 10)`, `"(" + strconv.FormatInt(next, 10)`))),
	wrong("without scripts, whatever holds the key after the second sending is a vote",
		in("Dialect.decodeHold", replace(`has(get, p.Token)`, `get.Kind == driver.String`))),
	wrong("a command releases whatever token is there",
		in("Deletion.Encode", replace(`"DELIFEQ", key, token`, `"DEL", key`))),
	wrong("a number that the script does not return is a vote for an extension",
		in("decodeHold", always(`reply.Int <= most`))),
	wrong("a token that cannot have a quorum is taken for a holder's if it stays",
		in("Sighting.Stays", never(`!try.MayHold`))),
}
