/* Files that are written whole or not at all, as sessions are. */
#ifndef MICA_FILE_H
#define MICA_FILE_H

#include <mica/api.h>
#include <mica/status.h>

#include <stddef.h>

MICA_BEGIN

/** Saves bytes as a file, which appears whole or not at all: they are written to a hidden file
 *  beside it, which is then renamed. Several threads and processes may save to one path; what a
 *  killed one leaves behind is removed by the next save into that folder.
 *
 *  Links are followed, mode and owner of a file that is there stay. Not whole while they are
 *  written: a character device such as /dev/null, a file whose owner cannot be kept, and one in
 *  whose folder no file can be made. The name of an open descriptor, such as /dev/fd/1, is that
 *  descriptor: the bytes follow what was written there.
 *
 *  The disk has the bytes before the file has its name (fsync).
 *
 *  path    of the file; one that is there is replaced. Borrowed.
 *  data    [size] bytes; NULL where size is 0. Borrowed.
 *  errors  MICA_EINVAL; MICA_ENOENT no such folder; MICA_EIO it cannot be written, or what is there
 *          is a folder, a FIFO, a socket or a block device; MICA_ENOMEM */
MICA_API mica_status mica_file_save(const char *path, const void *data, size_t size);

MICA_END

#endif
