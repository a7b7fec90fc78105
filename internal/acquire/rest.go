package acquire

import "time"

// Rests reports whether the ticket of a set, of this rank and age, lets one pass that came at the other rank, or else for
// how long it does not: see line.lua. A rank of 0 is not known.
func Rests(rank int64, age time.Duration, came int64) (rests bool, until time.Duration) {
	if rank == 0 {
		return false, TicketPeriod / 2
	}
	micros, old := rank+age.Microseconds(), age.Microseconds()/8
	period := int64(48000)
	for old >= 2*period {
		period *= 2
	}
	since := micros - micros%period + period*2/3
	switch {
	case micros < since || old < period:
		until = time.Duration(max(since-micros, 8*(period-old))) * time.Microsecond
	case came != 0 && came < since:
		return true, 0
	default: // a wait that began in a rest passes nobody
		until = time.Duration(since+period-micros) * time.Microsecond
	}
	return false, until + time.Millisecond
}
