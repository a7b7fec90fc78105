package main

// Servers' own commands, which stand in for scripts.
var dialects = []mutant{
	{
		name:  "a command releases whatever token is there",
		file:  "redlock/native.go",
		edits: []edit{{`return append(args, "DELIFEQ", key, token)`, `return append(args, "DEL", key)`}},
	},
	{
		name:  "without scripts, whatever holds the key after the second sending is a vote",
		file:  "redlock/scriptless.go",
		edits: []edit{{`case has(get, token):`, `case get.Kind == driver.String:`}},
	},
	{
		name:  "without scripts, an extension may shorten",
		file:  "redlock/scriptless.go",
		edits: []edit{{`say("PEXPIRE", key, ttl, "GT")`, `say("PEXPIRE", key, ttl, "XX")`}},
	},
	{
		name:  "nobody hears that a node can neither run scripts nor do without",
		file:  "redlock/contact.go",
		edits: []edit{{`if err := f.dialect.limits(); err != nil {`, `if err := f.dialect.limits(); err != nil && n == nil {`}},
	},
}
