package supervise

// executable is this program, also when its file was replaced meanwhile.
func executable() (string, error) { return "/proc/self/exe", nil }
