/* The group of one rank. */
#include "group/group.h"

#include <string.h>

static bool is_started(void) {
    return false;
}

static mica_status open_self(double patience_s, void **state, int *rank, int *size) {
    (void)patience_s;
    *state = NULL;
    *rank = 0;
    *size = 1;
    return MICA_OK;
}

static mica_status split(void *state, int color, int key, void **part, int *rank, int *size) {
    (void)state;
    (void)color;
    (void)key;
    return open_self(0, part, rank, size);
}

static void close_self(void *state) {
    (void)state;
}

static void abort_self(void *state, int code) {
    (void)state;
    (void)code;
}

static mica_status copy(void *state, const void *in, size_t bytes, void *out) {
    (void)state;
    if (in != out) memcpy(out, in, bytes);
    return MICA_OK;
}

static mica_status broadcast(void *state, void *data, size_t bytes, int root) {
    (void)state;
    (void)data;
    (void)bytes;
    (void)root;
    return MICA_OK;
}

static mica_status send_self(void *state, const void *data, size_t bytes, int to) {
    (void)state;
    (void)data;
    (void)bytes;
    return mc_fail(MICA_EINVAL, "send: to rank %d, which sends", to);
}

static mica_status recv_self(void *state, void *data, size_t bytes, int from) {
    (void)state;
    (void)data;
    (void)bytes;
    return mc_fail(MICA_EINVAL, "recv: from rank %d, which receives", from);
}

const mc_group_ops mc_group_self = {
    .name = "self",
    .is_started = is_started,
    .open = open_self,
    .split = split,
    .close = close_self,
    .abort = abort_self,
    .all_gather = copy,
    .all_to_all = copy,
    .broadcast = broadcast,
    .send = send_self,
    .recv = recv_self,
};
