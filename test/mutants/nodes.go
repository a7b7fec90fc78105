package main

// Which servers may vote, and what is done about those that fail.
var nodes = []mutant{
	{
		name:  "one client votes twice",
		file:  "redlock/locker.go",
		edits: []edit{{`n.Name == other.Name || same(n.Client, other.Client) || same(n.Driver, other.Driver)`, `n.Name == other.Name`}},
	},
	{
		name:  "one server under two addresses votes twice",
		file:  "redlock/contact.go",
		edits: []edit{{`	if twin != nil {`, `	if twin != nil && n == nil {`}},
	},
	{
		name:  "a replica votes",
		file:  "redlock/contact.go",
		edits: []edit{{`role != "" && role != "master" {`, `role != "" && role == "" {`}},
	},
	{
		name:  "a node votes that evicts keys",
		file:  "redlock/contact.go",
		edits: []edit{{`if !n.locker.options.evictingOK {`, `if n == nil {`}},
	},
}
