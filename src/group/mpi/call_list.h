/* CALL(result, name, arguments): what mica asks of an MPI (group/mpi/shim.h), which a shim has as
 * do_<name>. Their order is that of the shim's table: a change is another MC_MPI_SHIM_VERSION. */

/* MPI_Init_thread, for calls of any thread, one at a time; 0 or an error. *comm receives a
 * duplicate of the world, which reports errors by codes. */
CALL(int, init, (void **comm, int *rank, int *size))
CALL(int, duplicate, (void *comm, void **copy, void **request)) /* which writes to *copy */
CALL(int, split, (void *comm, int color, int key, void **part, int *rank, int *size))
CALL(void, free, (void **comm))
CALL(void, finalize, (void))
CALL(void, abort, (void *comm, int code))
CALL(int, all_gather, (void *comm, const void *in, int bytes, void *out, void **request))
CALL(int, all_to_all, (void *comm, const void *in, int bytes, void *out, void **request))
CALL(int, broadcast, (void *comm, void *data, int bytes, int root, void **request))
CALL(int, send, (void *comm, const void *data, int bytes, int to, int tag, void **request))
CALL(int, recv, (void *comm, void *data, int bytes, int from, int tag, void **request))
/* Of a request that is done: frees it, and sets it to NULL. */
CALL(int, test, (void **request, int *done))
/* Whether a message with a tag is there, and whose it is. */
CALL(int, probe, (void *comm, int tag, int *there, int *from))
CALL(void, error_text, (int code, char *text, size_t bytes))
#undef CALL
