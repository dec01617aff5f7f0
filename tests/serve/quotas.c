/* What a key leaves with a server is bounded for each key: none takes the room of others. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "serve/common/batch_queue.h"
#include "serve/common/file_store.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Makes a file of a few bytes, which is "file-ID" then. */
static mica_status make_file(mc_file_store *store, size_t key, char id[MC_NAME_BYTES]) {
    mc_file_writer writer;
    mica_status status = mc_file_writer_open(&writer, store, key, MC_STR("a"), "batch");
    if (status != MICA_OK) return status;
    status = mc_file_writer_close(&writer, mc_file_writer_add(&writer, "abc", 3));
    memcpy(id, writer.about.id, MC_NAME_BYTES);
    return status;
}

static void test_files(void **state) {
    (void)state;
    enum { KEYS = 2 };
    char *folder = test_temp_dir(), id[MC_NAME_BYTES];
    mc_file_store store;
    mc_file_writer writer;
    static mc_stored_file all[MC_FILES];
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    assert_int_equal(mc_file_store_init(&store, KEYS), MICA_OK);
    for (int i = 0; i < MC_FILES; i++)
        assert_int_equal(make_file(&store, 1, id), MICA_OK);
    for (int i = 0; i < 3; i++) { /* what was refused is not counted */
        assert_int_equal(make_file(&store, 1, id), MICA_EBUSY);
        assert_int_equal(make_file(&store, 0, id), MICA_OK);
        assert_int_equal(make_file(&store, 2, id), MICA_OK);
    }
    assert_false(mc_file_store_remove(&store, 1, mc_str_of(id)));
    assert_int_equal(mc_file_store_list(&store, 1, all), MC_FILES);
    assert_int_equal(mc_file_store_list(&store, 2, all), 3);
    assert_string_equal(all[2].id, id); /* the latest is last */
    assert_int_equal(mc_file_store_list(&store, 1, all), MC_FILES);
    assert_true(mc_file_store_remove(&store, 1, mc_str_of(all[0].id)));
    /* what was being written gives its room back */
    assert_int_equal(mc_file_writer_open(&writer, &store, 1, MC_STR("b"), "batch"), MICA_OK);
    assert_int_equal(mc_file_writer_add(&writer, "abc", 3), MICA_OK);
    assert_int_equal(mc_file_writer_add(&writer, "", (size_t)MC_FILE_BYTES), MICA_EBUSY);
    assert_int_equal(mc_file_writer_close(&writer, MICA_EBUSY), MICA_EBUSY);
    assert_int_equal(store.shares[1].bytes, 3 * (MC_FILES - 1));
    assert_int_equal(make_file(&store, 1, id), MICA_OK);
    size_t n = mc_file_store_list(&store, 1, all);
    assert_int_equal(n, MC_FILES);
    while (n--)
        assert_true(mc_file_store_remove(&store, 1, mc_str_of(all[n].id)));
    assert_true(store.shares[1].count == 0 && store.shares[1].bytes == 0);
    assert_true(store.shares[2].count == 3 && store.shares[2].bytes == 9);
    mc_file_store_deinit(&store);
    unsetenv("TMPDIR");
    test_temp_dir_remove(folder);
}

/* ---- batches ---- */

static atomic_bool held;

/* Keeps the first one under way, and ends the others at once. */
static void run(mc_batch_queue *queue, mc_queued_batch *batch) {
    pthread_mutex_lock(&queue->lock);
    mc_batch_set_state(batch, MC_BATCH_IN_PROGRESS);
    while (!queue->ending && atomic_load(&held))
        pthread_cond_wait(&queue->changed, &queue->lock);
    mc_batch_set_state(batch, MC_BATCH_COMPLETED);
    pthread_mutex_unlock(&queue->lock);
}

static bool add(mc_batch_queue *queue, size_t key, mc_failure *failure) {
    mc_buffer metadata = {0}, out = {0};
    mc_put put = mc_put_into(&out);
    *failure = (mc_failure){0};
    bool done = mc_batch_queue_add(queue, key, "file-a", "/v1/responses", &metadata, &put, failure);
    mc_buffer_deinit(&metadata);
    mc_buffer_deinit(&out);
    return done;
}

static void test_batches(void **state) {
    (void)state;
    mc_batch_queue queue;
    mc_failure failure;
    atomic_store(&held, true);
    assert_int_equal(mc_batch_queue_open(&queue, NULL, run), MICA_OK);
    for (int i = 0; i < MC_BATCHES; i++)
        assert_true(add(&queue, 1, &failure));
    for (int i = 0; i < MC_BATCHES; i++) {
        assert_false(add(&queue, 1, &failure));
        assert_int_equal(failure.status, 429);
        assert_true(add(&queue, 2, &failure));
    }
    assert_false(add(&queue, 2, &failure));
    atomic_store(&held, false);
    pthread_mutex_lock(&queue.lock);
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    while (atomic_load(&queue.unfinished) > 0)
        sched_yield();
    for (int i = 0; i < 3 * MC_BATCHES; i++) /* the oldest that has ended goes */
        assert_true(add(&queue, 1, &failure) || failure.status == 429);
    mc_batch_queue_close(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
