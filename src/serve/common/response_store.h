/* The responses that a server remembers, in memory: for requests that continue one, or ask for it.
 *
 * It holds up to MC_STORED_RESPONSES of them and MC_STORED_BYTES; beyond that, those that were used
 * least recently are forgotten. One is there only for requests that have the same of the server's
 * keys as the one that it answered (mc_exchange.key). Threads: any. */
#ifndef SERVE_COMMON_RESPONSE_STORE_H
#define SERVE_COMMON_RESPONSE_STORE_H

#include "base/buffer.h"
#include "base/str.h"
#include "serve/common/chance.h"

#include <pthread.h>

enum { MC_STORED_RESPONSES = 1024, MC_STORED_BYTES = 64 << 20 };

typedef struct mc_stored_response {
    struct mc_stored_response *next;
    char id[MC_NAME_BYTES];
    size_t key;
    mc_buffer response; /* its JSON */
    mc_buffer input;    /* of its request: items of JSON with commas between (response_input.h) */
    mc_buffer messages; /* of the conversation with its answer: JSON objects with commas between */
} mc_stored_response;

typedef struct mc_response_store {
    pthread_mutex_t lock;
    mc_stored_response *first; /* used last */
    size_t count, bytes;
} mc_response_store;

void mc_response_store_init(mc_response_store *store);
void mc_response_store_deinit(mc_response_store *store);

/* Takes over the buffers, which are then empty. false: no memory, or one alone is too large. */
bool mc_response_store_add(mc_response_store *store, size_t key, const char *id,
                           mc_buffer *response, mc_buffer *input, mc_buffer *messages);

/* Adds copies to the buffers; NULL: not wanted. *found: whether there is one.
 * returns  false: no memory */
bool mc_response_store_find(mc_response_store *store, size_t key, mc_str id, mc_buffer *response,
                            mc_buffer *input, mc_buffer *messages, bool *found);

/* false: there is none */
bool mc_response_store_remove(mc_response_store *store, size_t key, mc_str id);

#endif
