/* The model goldens: folders with a model, golden.json and golden.safetensors; and changed copies
 * of them. A function that cannot do its work ends the test with a message. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include "support/support.h"

#include "base/json.h"
#include "io/safetensors.h"
#include "model/load/load.h"

typedef struct model_fixture {
    const char *name;
    char *path;
    mc_json_doc *golden; /* golden.json */
    mc_weights *tensors; /* golden.safetensors */
    mica_device *device;
    mc_lm *lm;
    double tolerance, key_tolerance;
    uint64_t active_bytes; /* on the device before the model: others' where MLX counts */
    int64_t context;       /* set by fixture_each_context */
} model_fixture;

/* Runs check for every folder of model goldens, $MICA_FIXTURES's if that is set: of a known family
 * in models/, of which there must be one at least, and all in families/ and published/. Prints how
 * many these are, and the names of the others. */
void fixture_each(void (*check)(const model_fixture *f));

/* The same for the goldens of adapters: each has its base model opened, with the adapter. */
void fixture_each_adapter(void (*check)(const model_fixture *f));

/* The same for the goldens of sliding contexts: each has its base model opened. false: the folder
 * has none. */
bool fixture_each_context(void (*check)(const model_fixture *f));

/* Opens a case of tests/fixtures, whatever MICA_FIXTURES says. */
void fixture_open(const char *name, model_fixture *f);
void fixture_close(model_fixture *f);

/* Makes the weights of the last norm NaN: so are all logits and hidden states. */
void fixture_break(model_fixture *f);

/* "tests/fixtures/models/name", whatever MICA_FIXTURES says; to be freed with free(). */
char *fixture_path(const char *name);

/* A golden's data; NULL if it has no such tensor. shape and count may be NULL. The name is
 * formatted as by printf. */
const float *fixture_floats(const model_fixture *f, const int64_t **shape, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const int32_t *fixture_ints(const model_fixture *f, size_t *count, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What the logits of a text may differ by when its parts are computed together or apart, or its
 * cache has moved: nothing on the cpu, which adds up in one order; elsewhere the golden's
 * tolerance, and what a cache of another type adds to it. */
double fixture_same(const model_fixture *f);

/* The logits of every position of a text, [n, vocab]; to be freed with free(). */
float *fixture_logits(mica_device *device, const mc_lm *lm, const int32_t *ids, size_t n);

/* Fails if the two differ by more than the tolerance anywhere; what: as by printf. */
void fixture_compare(const float *got, const float *want, size_t n, double tolerance,
                     const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Compares what a layer carries (what: "k", "state") with the golden's. Allows the golden's
 * tolerance and the rounding of f32, which grows with the numbers. */
void fixture_compare_cache(const model_fixture *f, const char *what, int layer, const float *got,
                           const float *want, size_t n);

/* "tests/fixtures/lora/name", likewise; to be freed with free(). */
char *fixture_adapter_path(const char *name);

/* Copies a folder, without goldens, to a temporary one (test_temp_dir_remove it). In the file
 * `name` the first `from` is replaced by `to`. In a safetensors file that is in the header, whose
 * length is set again. from NULL: nothing is changed. */
char *fixture_copy_folder(const char *source, const char *name, const char *from, const char *to);

/* The same for the model's folder "tests/fixtures/models/model". */
char *fixture_copy(const char *model, const char *name, const char *from, const char *to);

#endif
