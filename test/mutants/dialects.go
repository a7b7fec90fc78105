package main

// Servers' own commands, which stand in for scripts.
var dialects = []mutant{
	wrong("a command releases whatever token is there",
		in("deletion.say", replace(`"DELIFEQ", key, token`, `"DEL", key`))),
	wrong("without scripts, whatever holds the key after the second sending is a vote",
		in("dialect.held", replace(`has(get, token)`, `get.Kind == driver.String`))),
	wrong("without scripts, an extension may shorten",
		in("dialect.hold", replace(`key, ttl, "GT"`, `key, ttl, "XX"`))),
	wrong("nobody hears that a node can neither run scripts nor do without",
		in("finding.heed", drop(`if err := f.dialect.limits()`))),
}
