#include "engine/parrot.h"

#include <stdlib.h>
#include <string.h>

typedef struct parrot_model {
    parrot *p;
    mica_model_info info;
} parrot_model;

typedef struct parrot_session {
    parrot *p;
} parrot_session;

typedef struct parrot_answer {
    parrot *p;
    int32_t *ids;
    size_t count;
    int64_t said, max;
    atomic_bool cancelled;
} parrot_answer;

static mica_status available(void *user, const mica_model_options *options) {
    const parrot *p = user;
    (void)options;
    return p->missing ? mica_engine_fail(MICA_EDEVICE, p->missing) : MICA_OK;
}

static bool takes(void *user, const char *path) {
    parrot *p = user;
    (void)path;
    return atomic_load(&p->takes) != 0;
}

static mica_status model_open(void *user, const char *path, const mica_model_options *options,
                              void **model) {
    parrot_model *m = calloc(1, sizeof *m);
    (void)path;
    if (!m) return mica_engine_fail(MICA_ENOMEM, "no memory");
    m->p = user;
    m->info = (mica_model_info){.architecture = "bird", .context_length = options->context_length};
    *model = m;
    atomic_fetch_add(&m->p->models, 1);
    return MICA_OK;
}

static void model_close(void *model) {
    parrot_model *m = model;
    atomic_fetch_sub(&m->p->models, 1);
    free(m);
}

static const mica_model_info *model_info(const void *model) {
    const parrot_model *m = model;
    return &m->info;
}

static mica_status session_open(void *model, const mica_session_options *options, void **session) {
    const parrot_model *m = model;
    if (options->draft_model) return mica_engine_fail(MICA_EUNSUPPORTED, "draft_model");
    parrot_session *s = calloc(1, sizeof *s);
    if (!s) return mica_engine_fail(MICA_ENOMEM, "no memory");
    s->p = m->p;
    *session = s;
    atomic_fetch_add(&s->p->sessions, 1);
    return MICA_OK;
}

static void session_close(void *session) {
    parrot_session *s = session;
    atomic_fetch_sub(&s->p->sessions, 1);
    free(s);
}

static mica_status answer_open(void *session, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **answer) {
    parrot_session *s = session;
    if (options->temperature > 0) return mica_engine_fail(MICA_EUNSUPPORTED, "temperature");
    parrot_answer *a = calloc(1, sizeof *a);
    int32_t *copy = malloc(count * sizeof *copy);
    if (!a || !copy) {
        free(a);
        free(copy);
        return mica_engine_fail(MICA_ENOMEM, "no memory");
    }
    memcpy(copy, ids, count * sizeof *copy);
    *a = (parrot_answer){.p = s->p, .ids = copy, .count = count, .max = options->max_tokens};
    s->p->got = *options;
    *answer = a;
    atomic_fetch_add(&s->p->answers, 1);
    return MICA_OK;
}

static const mica_alternative alike[PARROT_ALTERNATIVES];

static mica_status answer_next(void *answer, mica_token *token, mica_finish *finish) {
    parrot_answer *a = answer;
    if (atomic_load(&a->cancelled)) return mica_engine_fail(MICA_ECANCELLED, "hushed");
    if (a->max && a->said == a->max) {
        *finish = MICA_FINISH_LENGTH;
        return MICA_OK;
    }
    if (a->said == (int64_t)a->count) {
        *finish = MICA_FINISH_STOP;
        return MICA_OK;
    }
    if (a->p->fails_at && a->said + 1 == a->p->fails_at)
        return mica_engine_fail(MICA_EIO, "lost its voice");
    token->id = a->p->odd && !a->said ? a->p->odd : a->ids[a->said];
    token->logprob = -0.5f;
    token->alternatives = alike;
    token->alternative_count = a->p->alternatives;
    a->said++;
    return MICA_OK;
}

static void answer_cancel(void *answer) {
    parrot_answer *a = answer;
    atomic_store(&a->cancelled, true);
    atomic_fetch_add(&a->p->cancels, 1);
}

static const mica_metrics *answer_metrics(const void *answer) {
    const parrot_answer *a = answer;
    return a->p->metrics;
}

static void answer_close(void *answer) {
    parrot_answer *a = answer;
    atomic_fetch_sub(&a->p->answers, 1);
    free(a->ids);
    free(a);
}

mica_engine parrot_engine(const char *name, parrot *p) {
    return (mica_engine){
        .struct_bytes = sizeof(mica_engine),
        .name = name,
        .description = "says what it is told",
        .user = p,
        .available = available,
        .takes = takes,
        .model_open = model_open,
        .model_close = model_close,
        .model_info = model_info,
        .session_open = session_open,
        .session_close = session_close,
        .answer_open = answer_open,
        .answer_next = answer_next,
        .answer_cancel = answer_cancel,
        .answer_metrics = answer_metrics,
        .answer_close = answer_close,
    };
}
