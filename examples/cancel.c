/* One thread generates, and another stops it after 20 tokens. */
#include <mica/mica.h>

#include <pthread.h>
#include <stdio.h>

/* State that both threads share: the number of tokens, and a signal that it changed. */
typedef struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int tokens;
    mica_stream *stream;
} shared;

static void *watch(void *arg) {
    shared *s = arg;
    pthread_mutex_lock(&s->lock);
    while (s->tokens < 20)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    mica_stream_cancel(s->stream); /* any thread may call it, and a signal handler */
    return NULL;
}

static void count(shared *s, int tokens) {
    pthread_mutex_lock(&s->lock);
    s->tokens += tokens;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    const mica_generate_options endless = {.ignore_eos = true};
    shared s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    mica_model *model = NULL;
    mica_session *session = NULL;
    pthread_t watcher;

    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status) status = mica_generate(session, "GNU tar is", 0, &endless, &s.stream);
    if (!status && pthread_create(&watcher, NULL, watch, &s) == 0) {
        for (mica_token t; mica_stream_next(s.stream, &t); count(&s, 1))
            fwrite(t.text, 1, t.len, stdout);
        count(&s, 20); /* ends the other thread if the text was shorter */
        pthread_join(watcher, NULL);
        status = mica_stream_status(s.stream);
        printf("\n%s: %s\n", mica_status_name(status), mica_last_error());
    } else {
        fprintf(stderr, "%s\n", mica_last_error());
    }
    mica_stream_close(&s.stream); /* after the other thread ended */
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_ECANCELLED;
}
