package main

// The scripts, over embedded nodes that run them.
var scripts = []mutant{
	{
		name:   "the script releases whatever token is there",
		file:   "internal/scripts/release.lua",
		edits:  []edit{{`if holder == ARGV[i] then`, `if holder then`}},
		suites: inRedlocktest,
	},
	{
		name:   "the script extends whatever token is there",
		file:   "internal/scripts/hold.lua",
		edits:  []edit{{`if holder == ARGV[1] then`, `if holder and holder ~= ARGV[3] then`}},
		suites: inRedlocktest,
	},
	{
		name:   "the script takes the key over from anybody",
		file:   "internal/scripts/hold.lua",
		edits:  []edit{{`if holder and holder ~= ARGV[3] then`, `if false then`}},
		suites: inRedlocktest,
	},
	{
		name:   "the script shortens what was granted for longer",
		file:   "internal/scripts/hold.lua",
		edits:  []edit{{`math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))`, `ARGV[2]`}},
		suites: inRedlocktest,
	},
	{
		name:   "the script extends whatever tokens are there, several at once",
		file:   "internal/scripts/extend.lua",
		edits:  []edit{{`if holders[i] == token then`, `if holders[i] then`}},
		suites: inRedlocktest,
	},
	{
		name:   "the script shortens what was granted for longer, several at once",
		file:   "internal/scripts/extend.lua",
		edits:  []edit{{`math.max(redis.call('PTTL', key), tonumber(ttl))`, `ttl`}},
		suites: inRedlocktest,
	},
}

// They run on embedded nodes. The nodes of redlock's own tests only act as if.
var inRedlocktest = []suite{{pkg: "./redlocktest", run: "Script"}}
