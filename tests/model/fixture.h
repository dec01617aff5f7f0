/* The model goldens: folders with a model, golden.json and golden.safetensors; and copies of them
 * with something changed. Everything here ends the test with a message where it cannot do its
 * work. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include "support/support.h"

#include "base/json.h"
#include "io/safetensors.h"
#include "model/lm.h"

typedef struct model_fixture {
    const char *name;
    char *path;
    mc_json_doc *golden; /* golden.json */
    mc_weights *tensors; /* golden.safetensors */
    mica_device *device;
    mc_lm *lm;
    double tolerance, key_tolerance;
    int64_t context; /* of fixture_each_context */
} model_fixture;

/* Runs check over every folder of the models' goldens, $MICA_FIXTURES's where that is set, whose
 * family the library knows; prints how many those are, and the names of the others. There must be
 * one at least. */
void fixture_each(void (*check)(const model_fixture *f));

/* The same over the adapters' goldens: each has its base model opened, with the adapter. */
void fixture_each_adapter(void (*check)(const model_fixture *f));

/* The same over the goldens of contexts that slide: each has its base model opened. A folder of
 * goldens need have none: false then. */
bool fixture_each_context(void (*check)(const model_fixture *f));

/* A case of tests/fixtures, whatever MICA_FIXTURES says. */
void fixture_open(const char *name, model_fixture *f);
void fixture_close(model_fixture *f);

/* "tests/fixtures/models/name", whatever MICA_FIXTURES says; freed with free(). */
char *fixture_path(const char *name);

/* A golden's data, NULL where it has no such tensor; shape and count may be NULL. Names are made
 * as by printf. */
const float *fixture_floats(const model_fixture *f, const int64_t **shape, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const int32_t *fixture_ints(const model_fixture *f, size_t *count, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails where the two differ by more than the tolerance anywhere; what: as by printf. */
void fixture_compare(const float *got, const float *want, size_t n, double tolerance,
                     const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The keys of a layer with those of the golden, by the golden's tolerance and what f32 loses, which
 * grows with them. */
void fixture_compare_keys(const model_fixture *f, const float *got, const float *want, size_t n,
                          int layer);

/* "tests/fixtures/lora/name", likewise; freed with free(). */
char *fixture_adapter_path(const char *name);

/* A copy of a folder, without goldens, in a temporary one: test_temp_dir_remove it. In the
 * file `name` the first `from` becomes `to`; where it is a safetensors file, in its header, whose
 * length is set anew. from NULL: nothing is changed. */
char *fixture_copy_folder(const char *source, const char *name, const char *from, const char *to);

/* The same of the model's folder "tests/fixtures/models/model". */
char *fixture_copy(const char *model, const char *name, const char *from, const char *to);

#endif
