package main

// The scripts, over embedded nodes that run them.
var scripts = []mutant{
	wrong("the script releases whatever token is there",
		in("release.lua", line(`if holder == ARGV[i] then`, `if holder then`)), inRedlocktest),
	wrong("the script extends whatever token is there",
		in("hold.lua", line(`if holder == ARGV[1] then`, `if holder and holder ~= ARGV[3] then`)), inRedlocktest),
	wrong("the script takes the key over from anybody",
		in("hold.lua", line(`if holder and holder ~= ARGV[3] then`, `if false then`)), inRedlocktest),
	wrong("the script shortens what was granted for longer",
		in("hold.lua", line(`math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))`, `ARGV[2]`)), inRedlocktest),
	wrong("the script extends whatever tokens are there, several at once",
		in("extend.lua", line(`if holders[i] == token then`, `if holders[i] then`)), inRedlocktest),
	wrong("the script shortens what was granted for longer, several at once",
		in("extend.lua", line(`math.max(redis.call('PTTL', key), tonumber(ttl))`, `ttl`)), inRedlocktest),
}

// They run on embedded nodes. The nodes of redlock's own tests only act as if.
var inRedlocktest = suite{pkg: "./redlocktest", run: "Script|Ticket|NobodyWaitsBehind|WhoIsShy"}
