/* Storages over mapped files, whose pages need not be in memory: they are read again. */
#ifndef DEVICE_MAPPED_H
#define DEVICE_MAPPED_H

#include "base/filemap.h"
#include "graph/storage.h"

/* Says that memory which the storage adopted is a part of the file, which stays mapped until it is
 * released. Does nothing where the device has a copy. */
void mc_storage_set_file(mc_storage *storage, const mc_filemap *file);

/* Takes [address, address + bytes) of a storage out of memory, if it is a file's. */
void mc_storage_leave_memory(const mc_storage *storage, const void *address, size_t bytes);

#endif
