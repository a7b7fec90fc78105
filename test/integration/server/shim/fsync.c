/* Notes what the process that it is preloaded into has brought to the disk.
 *
 * After each fsync and fdatasync of a file it appends "INODE LENGTH" to the file that
 * QUORUMLOCK_FSYNCS names. The length is the one before the call: what is written
 * during it may be on the disk or not. Inodes, because servers rename files.
 * No call begins while a file stands whose name is that one and ".held": the disk is busy.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int note(long call, int fd)
{
	struct stat before;
	const char *notes = getenv("QUORUMLOCK_FSYNCS");
	char held[4096];
	if (notes && snprintf(held, sizeof held, "%s.held", notes) < (int)sizeof held)
		while (access(held, F_OK) == 0)
			usleep(1000);
	int file = notes && fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
	if (syscall(call, fd) != 0)
		return -1;
	if (file) {
		char line[64];
		int n = snprintf(line, sizeof line, "%llu %lld\n", (unsigned long long)before.st_ino, (long long)before.st_size);
		int to = open(notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (to < 0 || write(to, line, n) != n)
			abort(); /* a power cut would throw away what is on the disk */
		close(to);
	}
	return 0;
}

int fsync(int fd) { return note(SYS_fsync, fd); }
int fdatasync(int fd) { return note(SYS_fdatasync, fd); }
