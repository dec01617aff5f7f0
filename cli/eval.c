/* mica eval: the perplexity of a long text, and the divergence between two kinds of arithmetic or
 * two models. */
#include "info.h"
#include "print.h"
#include "prompt.h"
#include "report.h"
#include "task.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARE_NONE, COMPARE_EXACT, COMPARE_FAST }; /* of the option's choices */
enum { MAX_WINDOW = 2048 };                         /* default, in tokens */

typedef struct eval_values {
    cli_model_values model;
    const char *file, *reference;
    int64_t compare, window;
    bool json, quiet;
} eval_values;

/* A text's tokens, and the windows they are cut into. */
typedef struct work {
    const mica_model *reference, *model; /* reference NULL: no comparison */
    const char *name;                    /* of the reference's folder; NULL: it is the same model */
    const mica_cancel *cancel;
    int32_t *ids; /* [n] */
    size_t n, lead, window;
    size_t done; /* tokens of the windows before the current one */
} work;

/* Reports the progress of the whole text; a task knows only its window. */
static void progress(void *user, uint64_t done, uint64_t total) {
    const work *w = user;
    (void)total;
    cli_progress_tick(NULL, w->done + done, w->n);
}

static mica_status eval_window(const work *w, const int32_t *ids, size_t n, mica_comparison *sums) {
    const mica_task_options options = {
        .progress = progress, .progress_user = (void *)w, .cancel = w->cancel};
    mica_score_result *score;
    if (w->reference) return mica_compare_ids(w->reference, w->model, ids, n, &options, sums);
    mica_status status = mica_score_ids(w->model, ids, n, &options, &score);
    if (status != MICA_OK) return status;
    sums->count += score->count - 1;
    sums->model_logprob += score->total;
    mica_score_free(&score);
    return MICA_OK;
}

/* Each window begins with the tokenizer's special tokens. They overwrite the last tokens of the
 * window before, which is done. */
static mica_status eval_windows(work *w, mica_comparison *sums) {
    int32_t first[8];
    size_t step = w->window - w->lead;
    memcpy(first, w->ids, w->lead * sizeof *first);
    for (size_t at = w->lead; at < w->n; at += step) {
        size_t n = (w->n - at < step ? w->n - at : step) + w->lead;
        int32_t *ids = w->ids + at - w->lead;
        memcpy(ids, first, w->lead * sizeof *first);
        if (n < 2) break; /* the first token of a window is not predicted */
        mica_status status = eval_window(w, ids, n, sums);
        if (status != MICA_OK) return status;
        w->done = at + step;
    }
    return MICA_OK;
}

/* Tokenises the text, and counts the special tokens at its beginning. */
static mica_status encode(work *w, const cli_text *text) {
    const mica_tokenizer *tok = mica_model_tokenizer(w->model);
    mica_status status = mica_tokenizer_encode(tok, text->data, text->len, true, &w->ids, &w->n);
    if (status != MICA_OK) return status;
    while (w->lead < w->n && w->lead < 8 && mica_tokenizer_is_special(tok, w->ids[w->lead]))
        w->lead++;
    return MICA_OK;
}

static double perplexity(double logprob, uint64_t count) {
    return exp(-logprob / (double)count);
}

static const char *arithmetic_name(const mica_model *model) {
    return cli_arithmetic_name(cli_model_info(model).arithmetic);
}

static void print_text(const work *w, const mica_comparison *s) {
    double count = (double)s->count;
    cli_print(stdout, "tokens          %" PRIu64 "\narithmetic      %s\nperplexity      %.4f\n",
              s->count, arithmetic_name(w->model), perplexity(s->model_logprob, s->count));
    if (!w->reference) return;
    cli_print(stdout,
              "compared with   %s%s%s, default caches\nits perplexity  %.4f\nmean KL         %.6f\n"
              "largest KL      %.6f\nsame top token  %.2f %%\n",
              w->name ? w->name : "", w->name ? ", " : "", arithmetic_name(w->reference),
              perplexity(s->reference_logprob, s->count), s->divergence / count, s->max,
              100.0 * (double)s->same / count);
}

static void print_json(const work *w, const mica_comparison *s) {
    double count = (double)s->count;
    cli_print(stdout, "{\"tokens\": %" PRIu64 ", \"arithmetic\": \"%s\", \"perplexity\": %.9g",
              s->count, arithmetic_name(w->model), perplexity(s->model_logprob, s->count));
    if (w->name) {
        printf(", \"reference\": ");
        cli_print_json(w->name, stdout);
    }
    if (w->reference)
        cli_print(stdout,
                  ", \"compared_with\": \"%s\", \"reference_perplexity\": %.9g, \"mean_kl\": %.9g, "
                  "\"max_kl\": %.9g, \"top_1_agreement\": %.9g",
                  arithmetic_name(w->reference), perplexity(s->reference_logprob, s->count),
                  s->divergence / count, s->max, (double)s->same / count);
    puts("}");
}

/* Opens the reference: the model of --reference without an adapter, else the same one, in the
 * arithmetic of --compare, with that arithmetic's default caches, so that the effect of --cache
 * counts, too. */
static int open_reference(const eval_values *values, const mica_model *model,
                          mica_model **reference) {
    mica_model_options options = cli_model_get_options(&values->model);
    const char *path = cli_model_info(model).path;
    int code = CLI_FAILED;
    if (values->compare == COMPARE_NONE && !values->reference) return CLI_DONE;
    if (values->compare != COMPARE_NONE)
        options.arithmetic =
            values->compare == COMPARE_EXACT ? MICA_ARITHMETIC_EXACT : MICA_ARITHMETIC_FAST;
    options.cache = MICA_CACHE_DEFAULT;
    if (values->reference) {
        options.adapter = NULL;
        path = cli_model_find(values->reference, NULL, false, "eval", &code);
    }
    *reference = path ? cli_model_open(path, &options, values->quiet) : NULL;
    return *reference ? CLI_DONE : code;
}

/* Evaluates the text. Both models are open. */
static int eval(const eval_values *values, work *w, const cli_text *text) {
    mica_comparison sums = {0};
    int64_t context = cli_model_info(w->model).context_length;
    int64_t window = values->window ? values->window : MAX_WINDOW;
    mica_status status = encode(w, text);
    if (status != MICA_OK) return cli_fail_status(status);
    w->window = (size_t)(window < context ? window : context);
    if (w->window <= w->lead) return cli_fail("a window of %zu tokens is too short", w->window);
    cli_progress_start("reading", values->quiet);
    status = eval_windows(w, &sums);
    cli_progress_clear();
    if (status != MICA_OK) return cli_task_fail(status);
    if (sums.count == 0) return cli_fail("the text has one token: give two or more");
    if (values->json)
        print_json(w, &sums);
    else
        print_text(w, &sums);
    return CLI_DONE;
}

static int run(const void *verb_values, char **args, int count) {
    const eval_values *values = verb_values;
    const char *model_word;
    cli_text text = {0};
    cli_task task = {0};
    mica_model *reference = NULL;
    work w = {0};
    const cli_source source = {.noun = "text",
                               .kind = CLI_TEXT_OF_LONG,
                               .instead = CLI_TEXT_INSTEAD,
                               .model = values->model.model,
                               .file = values->file};
    int code = cli_prompt_read("eval", &source, args, count, &model_word, &text);
    if (code == CLI_DONE)
        code = cli_task_open(&task, &values->model, model_word, "eval", values->quiet);
    if (code == CLI_DONE) code = open_reference(values, task.model, &reference);
    if (code == CLI_DONE) {
        w = (work){.reference = reference,
                   .model = task.model,
                   .name = values->reference,
                   .cancel = task.cancel};
        code = eval(values, &w, &text);
    }
    mica_free(w.ids);
    mica_model_close(&reference);
    cli_task_close(&task);
    free(text.data);
    return code;
}

static const cli_option eval_options[] = {
    CLI_OPTION(FILE, "file", eval_values, file, .letter = 'f', .placeholder = "FILE",
               .help = "read the text from FILE"),
    CLI_OPTION(CHOICE, "compare", eval_values, compare, .placeholder = "none|exact|fast",
               .initial = "none", .choices = "none exact fast",
               .help = "also compare with the model in this arithmetic and its default caches"),
    CLI_OPTION(FOLDER, "reference", eval_values, reference, .placeholder = "MODEL",
               .help = "also compare with this model, without an adapter: the one before "
                       "quantising or tuning"),
    CLI_OPTION(INT, "window", eval_values, window, .letter = 'w', .placeholder = "N",
               .initial = "0", .max = 1e9,
               .help = "cut the text into pieces of N tokens; 0: of 2048, or the model's context"),
    CLI_OPTION(FLAG, "json", eval_values, json, .help = "print a JSON object"),
    CLI_OPTION(FLAG, "quiet", eval_values, quiet, .letter = 'q',
               .help = "print no progress on stderr"),
};

const cli_verb cli_verb_eval = {
    .synopsis = "[MODEL] [TEXT]",
    .details = "Prints the perplexity of TEXT, which may have any length. --compare also prints\n"
               "the divergence from another arithmetic, --reference that from another model: the\n"
               "mean and the largest KL divergence of the next token's probabilities, in nats,\n"
               "and how often the likeliest token is the same. The other arithmetic has its "
               "default caches, so that the effect of\n"
               "--cache counts, too.\n"
               "\n" CLI_STDIN_HELP("TEXT") "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica eval --compare exact --file book.txt\n"
                "  mica eval ~/models/gemma-3-1b-it --file book.txt --window 512 --json\n"
                "  mica eval small --reference ~/models/gemma-3-1b-it --file book.txt\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(eval_values),
    .groups = {{"Eval", eval_options, CLI_COUNT(eval_options), 0},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(eval_values, model)}},
    .run = run,
};
