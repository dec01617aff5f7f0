#include "serve/common/response_store.h"

#include "base/alloc.h"

#include <stdio.h>

void mc_response_store_init(mc_response_store *store) {
    *store = (mc_response_store){.first = NULL};
    pthread_mutex_init(&store->lock, NULL);
}

static size_t bytes_of(const mc_stored_response *stored) {
    return sizeof *stored + stored->response.cap + stored->input.cap + stored->messages.cap;
}

static void free_stored(mc_stored_response *stored) {
    mc_buffer_deinit(&stored->response);
    mc_buffer_deinit(&stored->input);
    mc_buffer_deinit(&stored->messages);
    mc_free(stored);
}

/* Takes the one that *link points at out of the list. */
static mc_stored_response *unlink_response(mc_response_store *store, mc_stored_response **link) {
    mc_stored_response *stored = *link;
    *link = stored->next;
    store->count--;
    store->bytes -= bytes_of(stored);
    return stored;
}

static void put_first(mc_response_store *store, mc_stored_response *stored) {
    stored->next = store->first;
    store->first = stored;
    store->count++;
    store->bytes += bytes_of(stored);
}

static mc_stored_response **find_response(mc_response_store *store, size_t key, mc_str id) {
    mc_stored_response **link = &store->first;
    while (*link && ((*link)->key != key || !mc_str_is(id, (*link)->id)))
        link = &(*link)->next;
    return link;
}

static void forget_last(mc_response_store *store) {
    mc_stored_response **link = &store->first;
    while ((*link)->next)
        link = &(*link)->next;
    free_stored(unlink_response(store, link));
}

void mc_response_store_deinit(mc_response_store *store) {
    while (store->first)
        free_stored(unlink_response(store, &store->first));
    pthread_mutex_destroy(&store->lock);
}

bool mc_response_store_add(mc_response_store *store, size_t key, const char *id,
                           mc_buffer *response, mc_buffer *input, mc_buffer *messages) {
    mc_stored_response *stored = mc_calloc(1, sizeof *stored);
    if (!stored) return false;
    snprintf(stored->id, sizeof stored->id, "%s", id);
    stored->key = key;
    stored->response = *response;
    stored->input = *input;
    stored->messages = *messages;
    *response = *input = *messages = (mc_buffer){0};
    if (bytes_of(stored) > MC_STORED_BYTES) {
        free_stored(stored);
        return false;
    }
    pthread_mutex_lock(&store->lock);
    put_first(store, stored);
    while (store->count > MC_STORED_RESPONSES || store->bytes > MC_STORED_BYTES)
        forget_last(store);
    pthread_mutex_unlock(&store->lock);
    return true;
}

bool mc_response_store_find(mc_response_store *store, size_t key, mc_str id, mc_buffer *response,
                            mc_buffer *input, mc_buffer *messages, bool *found) {
    bool done = true;
    pthread_mutex_lock(&store->lock);
    mc_stored_response **link = find_response(store, key, id);
    *found = *link != NULL;
    if (*found) {
        mc_stored_response *stored = unlink_response(store, link);
        put_first(store, stored);
        if (response) done = mc_buffer_add(response, stored->response.data, stored->response.len);
        if (done && input) done = mc_buffer_add(input, stored->input.data, stored->input.len);
        if (done && messages)
            done = mc_buffer_add(messages, stored->messages.data, stored->messages.len);
    }
    pthread_mutex_unlock(&store->lock);
    return done;
}

bool mc_response_store_remove(mc_response_store *store, size_t key, mc_str id) {
    pthread_mutex_lock(&store->lock);
    mc_stored_response **link = find_response(store, key, id);
    mc_stored_response *stored = *link ? unlink_response(store, link) : NULL;
    pthread_mutex_unlock(&store->lock);
    if (stored) free_stored(stored);
    return stored != NULL;
}
