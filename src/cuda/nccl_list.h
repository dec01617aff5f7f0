/* What the device calls of NCCL: NCCL(name, symbol, parameters) for ncclResult_t
 * symbol(parameters). Include this file with NCCL defined; it is undefined at the end. */
NCCL(version, ncclGetVersion, (int *version))
NCCL(unique_id, ncclGetUniqueId, (mc_nccl_id * id))
NCCL(comm_new, ncclCommInitRank, (void **comm, int size, mc_nccl_id id, int rank))
NCCL(comm_free, ncclCommDestroy, (void *comm))
NCCL(comm_abort, ncclCommAbort, (void *comm))
NCCL(comm_error, ncclCommGetAsyncError, (void *comm, int *error))
NCCL(all_gather, ncclAllGather,
     (const void *in, void *out, size_t count, int type, void *comm, void *stream))
NCCL(broadcast, ncclBroadcast,
     (const void *in, void *out, size_t count, int type, int root, void *comm, void *stream))
NCCL(send, ncclSend, (const void *data, size_t count, int type, int to, void *comm, void *stream))
NCCL(recv, ncclRecv, (void *data, size_t count, int type, int from, void *comm, void *stream))
#undef NCCL
