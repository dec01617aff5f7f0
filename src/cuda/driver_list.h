/* What the device calls of the CUDA driver: DRIVER(name, symbol, parameters) for CUresult
 * symbol(parameters). All of it is looked up when the driver is loaded, which fails where one is
 * missing. Include this file with DRIVER defined; it is undefined at the end. */

/* the driver and its devices */
DRIVER(init, cuInit, (unsigned flags))
DRIVER(version, cuDriverGetVersion, (int *version))
DRIVER(error_name, cuGetErrorName, (int error, const char **name))
DRIVER(device_count, cuDeviceGetCount, (int *count))
DRIVER(device_get, cuDeviceGet, (int *device, int ordinal))
DRIVER(device_name, cuDeviceGetName, (char *name, int size, int device))
DRIVER(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))
DRIVER(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))

/* the context of a device, which all of a process share */
DRIVER(context_retain, cuDevicePrimaryCtxRetain, (void **context, int device))
DRIVER(context_release, cuDevicePrimaryCtxRelease_v2, (int device))
DRIVER(context_push, cuCtxPushCurrent_v2, (void *context))
DRIVER(context_pop, cuCtxPopCurrent_v2, (void **context))

/* memory */
DRIVER(memory_info, cuMemGetInfo_v2, (size_t * free, size_t *total))
DRIVER(alloc, cuMemAlloc_v2, (uint64_t * address, size_t bytes))
DRIVER(free, cuMemFree_v2, (uint64_t address))
DRIVER(host_alloc, cuMemHostAlloc, (void **host, size_t bytes, unsigned flags))
DRIVER(host_free, cuMemFreeHost, (void *host))
DRIVER(host_address, cuMemHostGetDevicePointer_v2, (uint64_t * address, void *host, unsigned flags))
DRIVER(to_device, cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream))
DRIVER(to_host, cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream))
DRIVER(within, cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream))

/* streams and events */
DRIVER(stream_new, cuStreamCreate, (void **stream, unsigned flags))
DRIVER(stream_free, cuStreamDestroy_v2, (void *stream))
DRIVER(stream_wait, cuStreamSynchronize, (void *stream))
DRIVER(stream_wait_event, cuStreamWaitEvent, (void *stream, void *event, unsigned flags))
DRIVER(event_new, cuEventCreate, (void **event, unsigned flags))
DRIVER(event_free, cuEventDestroy_v2, (void *event))
DRIVER(event_record, cuEventRecord, (void *event, void *stream))
DRIVER(event_query, cuEventQuery, (void *event))
DRIVER(event_wait, cuEventSynchronize, (void *event))
DRIVER(event_time, cuEventElapsedTime_v2, (float *milliseconds, void *from, void *to))

/* kernels */
DRIVER(module_load, cuModuleLoadData, (void **module, const void *image))
DRIVER(module_unload, cuModuleUnload, (void *module))
DRIVER(module_kernel, cuModuleGetFunction, (void **kernel, void *module, const char *name))
DRIVER(kernel_set, cuFuncSetAttribute, (void *kernel, int attribute, int value))
DRIVER(launch, cuLaunchKernel,
       (void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
        unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
        void **extra))

/* graphs of kernels */
DRIVER(graph_new, cuGraphCreate, (void **graph, unsigned flags))
DRIVER(graph_free, cuGraphDestroy, (void *graph))
DRIVER(graph_add, cuGraphAddNode_v2,
       (void **node, void *graph, void *const *before, const mc_cuda_edge *edges, size_t n_before,
        mc_cuda_node_params *params))
DRIVER(graph_make, cuGraphInstantiateWithFlags, (void **exec, void *graph, uint64_t flags))
DRIVER(graph_exec_free, cuGraphExecDestroy, (void *exec))
DRIVER(graph_set, cuGraphExecKernelNodeSetParams_v2,
       (void *exec, void *node, const mc_cuda_kernel_params *params))
DRIVER(graph_launch, cuGraphLaunch, (void *exec, void *stream))

#undef DRIVER
