// Package nodeclock tells from samples of TIME how a node's clock stands, how fast it drifts, and when it was
// stepped: see [Estimator]. [Median] is the time by most nodes, wherever a minority of their clocks may stand.
//
// It is arithmetic: nothing here reads a clock, and nothing does any I/O.
package nodeclock
