#include "cuda/nodes.h"

mica_status mc_cuda_nodes_add(mc_cuda_nodes *list, mc_cuda_kernel kernel, mc_cuda_grid grid,
                              const void *args, size_t bytes) {
    static const char zero[16] = {0};
    mc_cuda_node node = {
        .kernel = kernel, .grid = grid, .bytes = (uint32_t)bytes, .at = list->args.len};
    if (!mc_buffer_add(&list->args, args, bytes) ||
        !mc_buffer_add(&list->args, zero, (16 - bytes % 16) % 16) ||
        !mc_buffer_add(&list->nodes, &node, sizeof node))
        return mc_fail_nomem("a launch");
    return MICA_OK;
}

void mc_cuda_nodes_free(mc_cuda_nodes *list) {
    mc_buffer_deinit(&list->nodes);
    mc_buffer_deinit(&list->args);
    *list = (mc_cuda_nodes){0};
}
