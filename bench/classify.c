/* Times a call that classifies prompts, or scores them, in tokens of prompts a second.
 *
 *     classify MODEL [WORDS [PROMPTS [THREADS [score]]]]
 *
 * Each prompt has WORDS words (32) or a few more, of one or two tokens. Successive prompts have
 * different beginnings, except for <bos>, which is computed and counted once if a prompt fits the
 * caches. The first call is not counted. THREADS 0: one per core. */
#include <mica/mica.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 64, MAX_WORDS = 4096 };

/* "one the the the ..." */
static char *new_prompt(int index, int words) {
    static const char *const first[] = {"One", "Two", "Red", "Sea", "Day", "Man", "Sun", "Old"};
    char *text = malloc((size_t)(words + index / 8) * 4 + 16);
    if (text == NULL) return NULL;
    int at = sprintf(text, "%s", first[index % 8]);
    for (int i = index / 8; i > 0; i--) /* the rounds differ, too */
        at += sprintf(text + at, " %s", first[i % 8]);
    for (int i = 1; i < words; i++)
        at += sprintf(text + at, " the");
    return text;
}

/* The number of tokens that all texts begin with: 1 if there is a <bos>, else 0. */
static mica_status count_shared(const mica_model *model, int64_t *n) {
    const mica_tokenizer *tok = mica_model_tokenizer(model);
    int32_t *ids = NULL;
    size_t count;
    mica_status status = mica_tokenizer_encode(tok, "", 0, true, &ids, &count);
    *n = status == MICA_OK && count > 0 && ids[0] == mica_tokenizer_bos(tok);
    mica_free(ids);
    return status;
}

/* What a call took. */
typedef struct taken {
    int64_t tokens;
    double seconds;
} taken;

static mica_status classify(const mica_model *model, char *const *prompts, size_t count,
                            int64_t shared, taken *out) {
    mica_classify_results *results = NULL;
    mica_status status = mica_classify(model, (const char *const *)prompts, count, NULL, &results);
    if (status != MICA_OK) return status;
    out->tokens = shared;
    out->seconds = results->seconds;
    for (size_t i = 0; i < count; i++) {
        if (status == MICA_OK) status = results->rows[i].status;
        out->tokens += results->rows[i].prompt_tokens - shared;
    }
    mica_classify_free(&results);
    return status;
}

static mica_status score(const mica_model *model, char *const *prompts, size_t count,
                         int64_t shared, taken *out) {
    mica_score_results *results = NULL;
    mica_status status =
        mica_score_texts(model, (const char *const *)prompts, count, NULL, &results);
    if (status != MICA_OK) return status;
    out->tokens = shared;
    out->seconds = results->seconds;
    for (size_t i = 0; i < count; i++) {
        if (status == MICA_OK) status = results->rows[i].status;
        if (status == MICA_OK) out->tokens += (int64_t)results->rows[i].score->count - shared;
    }
    mica_score_texts_free(&results);
    return status;
}

static mica_status measure(const mica_model *model, char *const *prompts, size_t count,
                           bool scores) {
    taken total = {0, 1.0};
    int64_t shared;
    mica_status status = count_shared(model, &shared);
    for (int call = 0; status == MICA_OK && call < 2; call++)
        status = scores ? score(model, prompts, count, shared, &total)
                        : classify(model, prompts, count, shared, &total);
    int64_t tokens = total.tokens;
    double rate = (double)tokens / total.seconds;
    if (status == MICA_OK)
        printf("prompts  tokens  tokens/s\n%7zu  %6lld  %8.1f\n", count, (long long)tokens, rate);
    return status;
}

int main(int argc, char **argv) {
    int words = argc > 2 ? atoi(argv[2]) : 32, count = argc > 3 ? atoi(argv[3]) : 4;
    int threads = argc > 4 ? atoi(argv[4]) : 0;
    bool scores = argc > 5 && strcmp(argv[5], "score") == 0;
    if (argc < 2 || words < 1 || words > MAX_WORDS || count < 1 || count > MAX) {
        fprintf(
            stderr,
            "usage: %s MODEL [WORDS [PROMPTS [THREADS [score]]]], at most %d words, %d prompts\n",
            argv[0], MAX_WORDS, MAX);
        return 2;
    }
    char *prompts[MAX] = {0};
    mica_model *model = NULL;
    mica_status status =
        mica_model_open(argv[1], &(mica_model_options){.threads = threads}, &model);
    bool made = true;
    for (int i = 0; i < count; i++)
        made = (prompts[i] = new_prompt(i, words)) != NULL && made;
    if (status == MICA_OK && made) status = measure(model, prompts, (size_t)count, scores);
    if (status != MICA_OK) fprintf(stderr, "%s\n", mica_last_error());
    if (!made) fprintf(stderr, "out of memory\n");
    for (int i = 0; i < count; i++)
        free(prompts[i]);
    mica_model_close(&model);
    return status != MICA_OK || !made;
}
