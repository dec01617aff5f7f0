#include "tune/data.h"

#include "base/alloc.h"
#include "base/filemap.h"

#include <stdio.h>
#include <string.h>

static const char *const set_names[MC_SETS] = {"train", "valid", "test"};

/* The path of a set's file, freed with mc_free; *path NULL: there is none. */
static mica_status find_file(const char *data, mc_set set, char **path) {
    static const char *const suffixes[] = {".jsonl", ".jsonl.gz", ".jsonl.zst",
                                           ".json",  ".json.gz",  ".json.zst",
                                           ".csv",   ".csv.gz",   ".csv.zst"};
    *path = NULL;
    mc_path_info info;
    if (!mc_path_stat(data, &info)) return mc_fail(MICA_ENOENT, "%s: no such folder or file", data);
    if (!info.is_dir) {
        if (set == MC_SET_TRAIN) *path = mc_strdup(data);
        return set != MC_SET_TRAIN || *path ? MICA_OK : mc_fail_nomem(data);
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%s", set_names[set], suffixes[i]);
        *path = mc_path_join(data, name);
        if (!*path) return mc_fail_nomem(data);
        if (mc_path_stat(*path, &info)) return MICA_OK;
        mc_free(*path);
        *path = NULL;
    }
    return MICA_OK;
}

typedef struct opening {
    mc_data *data;
    const mica_tune_options *options;
    mc_examples_options reading;
    bool pairs, mask_prompt;
} opening;

/* Reads a set from the options' source. */
static mica_status open_source(opening *o, mc_set set, bool needed) {
    char name[32];
    mc_examples *e = &o->data->examples[set];
    snprintf(name, sizeof name, "the %s set", set_names[set]);
    o->reading.set = (mica_tune_set)set;
    MC_TRY(mc_examples_open(e, name, &o->reading));
    if (mc_examples_count(e)) return MICA_OK;
    mc_examples_close(e);
    return needed ? mc_fail(MICA_EFORMAT, "the source gives no examples of %s", name) : MICA_OK;
}

static mica_status open_examples(opening *o, mc_set set, bool needed) {
    char *path;
    if (o->options->source) return open_source(o, set, needed);
    MC_TRY(find_file(o->options->data, set, &path));
    if (!path && needed)
        return mc_fail(MICA_ENOENT,
                       "%s: there is no %s.jsonl, .json or .csv in it (each may be compressed, .gz "
                       "or .zst)",
                       o->options->data, set_names[set]);
    if (!path) return MICA_OK;
    mica_status status = mc_examples_open(&o->data->examples[set], path, &o->reading);
    mc_free(path);
    return status;
}

static mica_status open_batches(opening *o, mc_set set, mc_set from, const uint32_t *texts,
                                uint32_t n) {
    const mica_tune_options *t = o->options;
    const mc_batches_options options = {
        .batch_size = t->batch_size,
        .max_length = t->max_seq_length,
        .seed = t->seed,
        .pairs = o->pairs,
        .pack = t->pack,
        .mask_prompt = o->mask_prompt,
        .drop_last = set == MC_SET_TRAIN && t->average == MICA_TUNE_AVERAGE_STEPS,
        .shuffle = set == MC_SET_TRAIN,
    };
    o->data->n[set] = n;
    return mc_batches_open(&o->data->batches[set], &o->data->examples[from], texts, n, &options);
}

/* Batches of a file's examples, of which a share may go to the validation set: those that come
 * first in a random order, which is the seed's. */
static mica_status divide(opening *o, mc_set set, double share) {
    const mc_examples *e = &o->data->examples[set];
    uint32_t step = o->pairs ? 2 : 1, n = (uint32_t)(mc_examples_count(e) / step);
    uint32_t valid = (uint32_t)((double)n * share + 0.5), used = 0;
    uint32_t *order = mc_array_alloc(n + 1, sizeof *order);
    uint32_t *texts = mc_array_alloc(n + 1, sizeof *texts);
    bool *split = mc_calloc(n + 1, sizeof *split);
    mica_status status = order && texts && split ? MICA_OK : mc_fail_nomem("batches");
    if (status == MICA_OK && share > 0.0 && (!valid || valid >= n))
        status = mc_fail(MICA_EINVAL, "%s: a share of %g of %u examples leaves none for one side",
                         e->path, share, n);
    if (status == MICA_OK && valid) {
        mc_order random;
        mc_order_seed(&random, (uint32_t)o->options->seed);
        mc_order_next(&random, order, n);
        for (uint32_t i = 0; i < valid; i++)
            split[order[i]] = true;
    }
    for (int side = 0; side < 2 && status == MICA_OK; side++) {
        used = 0;
        for (uint32_t i = 0; i < n; i++)
            if (split[i] == (side == 1)) texts[used++] = i * step;
        if (used) status = open_batches(o, side ? MC_SET_VALID : set, set, texts, used);
    }
    mc_free(order);
    mc_free(texts);
    mc_free(split);
    return status;
}

static mica_status open_all(opening *o) {
    const mica_tune_options *t = o->options;
    mc_data *data = o->data;
    if (!t->no_train) {
        MC_TRY(open_examples(o, MC_SET_TRAIN, true));
        MC_TRY(open_examples(o, MC_SET_VALID, false));
        if (!data->examples[MC_SET_VALID].path) data->valid_share = t->valid_share;
        MC_TRY(divide(o, MC_SET_TRAIN, data->valid_share));
        if (data->examples[MC_SET_VALID].path) MC_TRY(divide(o, MC_SET_VALID, 0.0));
        data->hash = data->examples[MC_SET_TRAIN].hash;
    }
    if (t->test || t->no_train) {
        MC_TRY(open_examples(o, MC_SET_TEST, true));
        MC_TRY(divide(o, MC_SET_TEST, 0.0));
    }
    return MICA_OK;
}

mica_status mc_data_open(mc_data *data, const mica_tuner *tuner, const mica_tune_options *options,
                         bool pairs, bool mask_prompt) {
    *data = (mc_data){.hash = 0};
    opening o = {.data = data, .options = options, .pairs = pairs, .mask_prompt = mask_prompt};
    o.reading = (mc_examples_options){
        .prompt = &tuner->prompt,
        .chat = tuner->lm->spec.chat,
        .vocab = tuner->lm->spec.vocab,
        .pairs = pairs,
        .need_answer = mask_prompt,
        .max_length = options->max_seq_length,
        .keys = {options->prompt_key, options->completion_key, options->messages_key,
                 options->text_key},
        .too_long = options->too_long,
        .skip_bad = options->skip_bad,
        .cancel = options->cancel,
        .source = options->source,
        .source_user = options->source_user,
    };
    return open_all(&o);
}

void mc_data_close(mc_data *data) {
    for (int i = 0; i < MC_SETS; i++) {
        mc_batches_close(&data->batches[i]);
        mc_examples_close(&data->examples[i]);
    }
}
