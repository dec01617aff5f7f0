/* Saving a file whole or not at all. Sessions are saved by this. */
#ifndef MICA_FILE_H
#define MICA_FILE_H

#include <mica/api.h>
#include <mica/status.h>

#include <stddef.h>

MICA_BEGIN

/** Saves bytes as a file. The file appears whole or not at all: the bytes are written to a hidden
 *  file in the same folder, which is then renamed. Several threads and processes may save to one
 *  path at once. A killed process leaves its hidden file behind; the next save into that folder
 *  removes it.
 *
 *  Links are followed. An existing file keeps its mode and owner. Three kinds of targets are
 *  written directly, and so are incomplete for a while: a character device such as /dev/null, a
 *  file whose owner could not be kept, and a file in a folder where no file can be made. The name
 *  of an open descriptor, such as /dev/fd/1, means that descriptor: the bytes follow what was
 *  written to it before.
 *
 *  The bytes are on the disk before the file gets its name (fsync).
 *
 *  path    path of the file. An existing file is replaced. Borrowed.
 *  data    [size] bytes; NULL if size is 0. Borrowed.
 *  errors  MICA_EINVAL; MICA_ENOENT no such folder; MICA_EIO the file cannot be written, or the
 *          path is a folder, a FIFO, a socket or a block device; MICA_ENOMEM */
MICA_API mica_status mica_file_save(const char *path, const void *data, size_t size);

MICA_END

#endif
