module github.com/quorumlock/quorumlock

go 1.25.0
