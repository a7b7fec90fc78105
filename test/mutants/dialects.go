package main

// Servers' own commands, which stand in for scripts.
var dialects = []mutant{
	wrong("a command releases whatever token is there",
		in("Deletion.encode", replace(`"DELIFEQ", key, token`, `"DEL", key`))),
	wrong("without scripts, whatever holds the key after the second sending is a vote",
		in("Dialect.decodeHold", replace(`has(get, p.Token)`, `get.Kind == driver.String`))),
	wrong("without scripts, an extension may shorten",
		in("dialect.hold", replace(`key, ttl, "GT"`, `key, ttl, "XX"`))),
	wrong("nobody hears that a node can neither run scripts nor do without",
		in("Node.findOut", drop(`if limit := found.dialect.Limits()`))),
	wrong("a node gives locks that it cannot release, without scripts",
		in("Dialect.Refuses", drop(`case op.needs != 0`))),
	wrong("a node gives locks though a command is missing that comes later",
		in("Dialect.Refuses", replace(`lacks == 0`, `true`)), suite{pkg: "./test/integration", run: "ACommandThatIsMissing"}),
	wrong("a user who may not use the keys beside a key is told of the key alone",
		in("protocol.forbidden", replace(`f.String()`, `""`)), suite{pkg: "./test/integration", run: "KeysBesideTheKeysIsTold"}),
	wrong("what a server says unasked is not heard",
		in("hearing.hear", replace(`len(p) == 0`, `true`)), suite{pkg: "./test/integration", run: "SaysUnaskedIsInTheError"}),
}
