/* Passes that run ahead of their token (mc_session.follow): they change no token and no state of
 * the session, whenever it is stopped, and their errors come when their token is asked for. On a
 * device that computes at once there are none. */
#include "model/fixture.h"

#include "exec/cache.h"
#include "exec/compiled.h"
#include "exec/program.h"
#include "session/session_file.h"
#include "session/stream.h"
#include "support/witness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 6, TOKENS = 12, VOCAB = 96 };

static const int32_t prompt[PROMPT] = {3, 14, 15, 92, 65, 35};

static mc_session_model shared_of(const model_fixture *f, int64_t context) {
    return (mc_session_model){.lm = f->lm, .device = f->device, .context = context};
}

static mc_session *open_session(const mc_session_model *shared) {
    mc_session *session;
    if (mc_session_open(shared, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

/* follow: whether passes may run ahead. */
static mc_stream *open_stream(mc_session *session, const int32_t *ids, size_t n, int64_t max,
                              bool follow) {
    const mica_generate_options options = {.max_tokens = max};
    mc_stream *stream;
    if (mc_stream_open(session, ids, n, &options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    if (!follow) mc_stream_share(stream, true);
    return stream;
}

/* Takes up to n tokens; returns how many came. */
static int take(mc_stream *stream, int n, int32_t *ids) {
    mica_token token;
    int count = 0;
    for (; count < n && mc_stream_next(stream, &token); count++)
        ids[count] = token.id;
    return count;
}

static bool is_witness(const model_fixture *f) {
    return strcmp(f->device->backend->name, witness_backend.name) == 0;
}

/* Whether the device computes all of a session's passes: of others nothing is left to follow. A
 * complete device does. */
static bool is_whole(const mc_session *session) {
    bool whole = session->programs[0].program->cached->compiled->whole;
    assert_true(whole || !session->model->device->backend->complete);
    return whole;
}

static char *save(mc_session *session, size_t *size) {
    char *dir = test_temp_dir(), *path = test_format("%s/session", dir);
    if (mc_session_save(session, path) != MICA_OK) fail_msg("%s", mica_last_error());
    char *bytes = test_read_file(path, size);
    free(path);
    test_temp_dir_remove(dir);
    return bytes;
}

/* ---- tokens and states ---- */

/* After k tokens of an answer: the file of the session, and what another prompt gives then. */
static void check_stopped(const model_fixture *f, int64_t context, int k, const int32_t *want) {
    const mc_session_model shared = shared_of(f, context);
    int32_t ids[2][TOKENS], other[PROMPT + 1];
    size_t sizes[2];
    char *files[2];
    memcpy(other, prompt, sizeof prompt);
    other[PROMPT] = 7;
    for (int follow = 0; follow < 2; follow++) {
        mc_session *session = open_session(&shared);
        mc_stream *stream = open_stream(session, prompt, PROMPT, TOKENS, follow);
        assert_int_equal(take(stream, k, ids[follow]), k);
        bool late = f->device->backend->late && follow && k > 0 && k < TOKENS && is_whole(session);
        assert_int_equal(session->has_follower, late);
        assert_memory_equal(ids[follow], want, (size_t)k * sizeof *want);
        if (k % 2) files[follow] = save(session, &sizes[follow]);
        mc_stream_close(&stream);
        if (k % 2 == 0) files[follow] = save(session, &sizes[follow]);
        assert_int_equal(mc_session_count(session), k ? PROMPT + k - 1 : 0);
        stream = open_stream(session, other, PROMPT + 1, 4, follow);
        assert_int_equal(take(stream, 4, ids[follow]), 4);
        mc_stream_close(&stream);
        mc_session_close(&session);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(files[0], files[1], sizes[0]);
    assert_memory_equal(ids[0], ids[1], 4 * sizeof *want);
    free(files[0]);
    free(files[1]);
}

static void check_every_stop(const model_fixture *f, int64_t context) {
    const mc_session_model shared = shared_of(f, context);
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, PROMPT, TOKENS, false);
    int32_t want[TOKENS];
    assert_int_equal(take(stream, TOKENS, want), TOKENS);
    mc_stream_close(&stream);
    mc_session_close(&session);
    for (int k = 0; k <= TOKENS; k += test_case_step())
        check_stopped(f, context, k, want);
}

static void check_family(const model_fixture *f) {
    check_every_stop(f, 0);
    check_every_stop(f, 8);
}

static void test_every_family(void **state) {
    (void)state;
    fixture_each(check_family);
}

/* Caches grow and drop entries on the way: no pass runs ahead then. */
static void test_long_answers(void **state) {
    (void)state;
    enum { LONG = 700 };
    static int32_t ids[2][LONG];
    const int n = test_device_keeps_order() ? LONG : 300; /* MLX takes its time */
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    for (int64_t context = 0; context <= 20; context += 20) {
        const mc_session_model shared = shared_of(&f, context);
        for (int follow = 0; follow < 2; follow++) {
            mc_session *session = open_session(&shared);
            mc_stream *stream = open_stream(session, prompt, PROMPT, n, follow);
            assert_int_equal(take(stream, n, ids[follow]), n);
            mc_stream_close(&stream);
            mc_session_close(&session);
        }
        assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    }
    fixture_close(&f);
}

/* A token that was not chosen, a cancelled answer, a reset and closing drop the follower. */
static void check_dropped(const char *name) {
    const float *logits;
    model_fixture f;
    fixture_open(name, &f);
    const mc_session_model shared = shared_of(&f, 0);
    mc_best best[2];
    for (int follow = 0; follow < 2; follow++) {
        mc_session *session = open_session(&shared);
        int32_t ids[3];
        mica_token token;
        mc_stream *stream = open_stream(session, prompt, PROMPT, TOKENS, follow);
        assert_int_equal(take(stream, 3, ids), 3);
        session->follow = false;
        assert_int_equal(mc_session_feed(session, &(int32_t){(ids[2] + 1) % VOCAB}, 1, &logits), 0);
        best[follow] = *mc_session_best(session);
        mc_stream_close(&stream);
        stream = open_stream(session, prompt, PROMPT, TOKENS, follow);
        assert_int_equal(take(stream, 3, ids), 3);
        mc_stream_cancel(stream);
        assert_false(mc_stream_next(stream, &token));
        assert_int_equal(mc_stream_finish(stream), MICA_FINISH_CANCELLED);
        mc_stream_close(&stream);
        assert_int_equal(mc_session_count(session), PROMPT + 2);
        mc_session_reset(session);
        assert_false(mc_session_is_ahead(session));
        stream = open_stream(session, prompt, PROMPT, TOKENS, follow);
        assert_int_equal(take(stream, 1, ids), 1);
        mc_stream_close(&stream);
        mc_session_close(&session);
    }
    assert_memory_equal(&best[0], &best[1], sizeof *best);
    fixture_close(&f);
}

static void test_dropped(void **state) {
    (void)state;
    check_dropped("gemma3_text_f32");
    check_dropped("../families/lfm2_hf");
    check_dropped("../families/nemotron_h_hf");
}

/* ---- the witness: how much is computed, and failures ---- */

/* No pass is launched that max_tokens or the model's context ends the answer before. */
static void test_nothing_is_wasted(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    const mc_session_model shared = shared_of(&f, 0);
    const int64_t context = f.lm->spec.context;
    for (int limit = 0; limit < 2 && is_witness(&f); limit++) {
        uint64_t launches[2];
        if (limit) f.lm->spec.context = PROMPT + 5;
        for (int follow = 0; follow < 2; follow++) {
            mc_session *session = open_session(&shared);
            mc_stream *stream = open_stream(session, prompt, PROMPT, limit ? 0 : 6, follow);
            int32_t ids[TOKENS];
            uint64_t before = witness_count(f.device, WITNESS_LAUNCH);
            assert_int_equal(take(stream, TOKENS, ids), 6);
            assert_int_equal(mc_stream_finish(stream), MICA_FINISH_LENGTH);
            launches[follow] = witness_count(f.device, WITNESS_LAUNCH) - before;
            mc_stream_close(&stream);
            mc_session_close(&session);
        }
        assert_int_equal(launches[0], launches[1]);
    }
    f.lm->spec.context = context;
    fixture_close(&f);
}

/* The number of tokens that come while the n-th call of a kind fails; -1: it did not come. The
 * session goes on as a new one. */
static int fail_at(const model_fixture *f, witness_call call, uint64_t n, bool follow,
                   const int32_t *want) {
    const mc_session_model shared = shared_of(f, 0);
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, PROMPT, TOKENS, follow);
    int32_t ids[TOKENS];
    witness_fail(f->device, call, n);
    int count = take(stream, TOKENS, ids);
    bool failed = witness_has_failed(f->device, call);
    witness_fail(f->device, call, 0);
    assert_memory_equal(ids, want, (size_t)count * sizeof *want);
    if (!failed) {
        assert_int_equal(count, TOKENS);
        count = -1;
    } else if (count < TOKENS) {
        assert_true(mc_stream_status(stream) == MICA_EDEVICE ||
                    mc_stream_status(stream) == MICA_ENOMEM);
        assert_non_null(strstr(mica_last_error(), "witness"));
        assert_int_equal(mc_session_count(session), 0);
    }
    mc_stream_close(&stream);
    stream = open_stream(session, prompt, PROMPT, TOKENS, follow);
    assert_int_equal(take(stream, TOKENS, ids), TOKENS);
    assert_memory_equal(ids, want, sizeof ids);
    mc_stream_close(&stream);
    mc_session_close(&session);
    return count;
}

/* An error comes at the same token as without passes that run ahead. */
static void check_each_launch(const char *name) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, PROMPT, TOKENS, false);
    int32_t want[TOKENS];
    assert_int_equal(take(stream, TOKENS, want), TOKENS);
    mc_stream_close(&stream);
    mc_session_close(&session);
    for (int call = 0; call < WITNESS_CALLS && is_witness(&f); call++) {
        uint64_t step = call == WITNESS_LAUNCH ? 1 : 7, n = 1;
        for (int count = 0; count >= 0; n += step) {
            count = fail_at(&f, (witness_call)call, n, true, want);
            if (call == WITNESS_LAUNCH)
                assert_int_equal(count, fail_at(&f, (witness_call)call, n, false, want));
        }
        assert_true(n > 3);
    }
    fixture_close(&f);
}

static void test_each_launch_fails(void **state) {
    (void)state;
    check_each_launch("qwen3_tied");
    check_each_launch("../families/lfm2_hf");
}

/* A follower that failed, and that nobody asked for, took the caches: a save says so, and another
 * answer begins anew. */
static void check_dropped_pass(const char *name) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_session_model shared = shared_of(&f, 0);
    for (int saves = 0; saves < 2 && is_witness(&f); saves++) {
        mc_session *session = open_session(&shared);
        mc_stream *stream = open_stream(session, prompt, PROMPT, TOKENS, true);
        int32_t ids[TOKENS], first[4];
        bool whole = false;
        assert_int_equal(take(stream, 4, first), 4);
        mc_stream_close(&stream);
        mc_session_reset(session);
        stream = open_stream(session, prompt, PROMPT, TOKENS, true);
        for (int i = 0; i < 3; i++) {
            whole = i == 2 && is_whole(session);
            if (whole) witness_fail(f.device, WITNESS_LAUNCH, 1); /* the others are computed */
            assert_int_equal(take(stream, 1, ids + i), 1);
        }
        assert_int_equal(session->has_follower, whole);
        if (whole) assert_true(witness_has_failed(f.device, WITNESS_LAUNCH));
        witness_fail(f.device, WITNESS_LAUNCH, 0);
        mc_stream_close(&stream);
        if (saves && whole) {
            char *dir = test_temp_dir(), *path = test_format("%s/session", dir);
            assert_int_equal(mc_session_save(session, path), MICA_EDEVICE);
            assert_non_null(strstr(mica_last_error(), "witness"));
            assert_int_equal(access(path, F_OK), -1);
            free(path);
            test_temp_dir_remove(dir);
        }
        stream = open_stream(session, prompt, PROMPT, TOKENS, true);
        assert_int_equal(take(stream, 4, ids), 4);
        assert_memory_equal(ids, first, sizeof first);
        mc_stream_close(&stream);
        mc_session_close(&session);
    }
    fixture_close(&f);
}

static void test_a_dropped_pass_failed(void **state) {
    (void)state;
    check_dropped_pass("qwen3_tied");
    check_dropped_pass("../families/lfm2_hf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),      cmocka_unit_test(test_long_answers),
        cmocka_unit_test(test_dropped),           cmocka_unit_test(test_nothing_is_wasted),
        cmocka_unit_test(test_each_launch_fails), cmocka_unit_test(test_a_dropped_pass_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
