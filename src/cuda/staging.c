/* Copies from the host through pinned memory: while a piece is on its way, the next is read. */
#include <string.h>

#include "cuda/cuda.h"

/* Less is copied by the driver at once, which has read it when it returns. */
enum { SMALL = 64 << 10, PIECE = 8 << 20 };

static int prepare(mc_cuda_buffer *b) {
    if (b->event) return mc_cuda.event_wait(b->event);
    int error = b->host ? 0 : mc_cuda.host_alloc(&b->host, PIECE, 0);
    return error ? error : mc_cuda.event_new(&b->event, MC_CUDA_EVENT_UNTIMED);
}

/* One piece, by the buffer that has waited longest. */
static int upload_piece(mc_cuda_state *state, uint64_t to, const char *from, size_t bytes) {
    mc_cuda_buffer *b = &state->buffers[state->next_buffer];
    int error = prepare(b);
    if (error) return error;
    state->next_buffer = (state->next_buffer + 1) % MC_CUDA_BUFFERS;
    memcpy(b->host, from, bytes);
    error = mc_cuda.to_device(to, b->host, bytes, state->stream);
    return error ? error : mc_cuda.event_record(b->event, state->stream);
}

int mc_cuda_upload(mc_cuda_state *state, uint64_t to, const char *from, size_t bytes) {
    int error = 0;
    if (bytes < SMALL) return mc_cuda.to_device(to, from, bytes, state->stream);
    (void)pthread_mutex_lock(&state->upload_lock);
    for (size_t at = 0; at < bytes && !error; at += PIECE)
        error = upload_piece(state, to + at, from + at, bytes - at < PIECE ? bytes - at : PIECE);
    (void)pthread_mutex_unlock(&state->upload_lock);
    return error;
}

void mc_cuda_buffers_free(mc_cuda_state *state) {
    for (int i = 0; i < MC_CUDA_BUFFERS; i++) {
        mc_cuda_buffer *b = &state->buffers[i];
        if (b->event) (void)mc_cuda.event_free(b->event);
        if (b->host) (void)mc_cuda.host_free(b->host);
        *b = (mc_cuda_buffer){NULL, NULL};
    }
}
