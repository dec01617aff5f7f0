/* What tests of the hub share: a mock hub with its folder, and an empty cache. */
#ifndef HUB_HUB_TEST_H
#define HUB_HUB_TEST_H

#include "mock_hub.h"
#include "support/support.h"

#include <mica/mica.h>

typedef struct hub_test {
    char *folder; /* temporary; holds the two below */
    char *root;   /* of the repositories */
    char *cache;
    char *endpoint;
    mock_hub *hub;
} hub_test;

/* Starts a hub with the repository org/model: config.json, tokenizer.json, model.safetensors of
 * 300,000 bytes, README.md, original/weights.safetensors. Unsets the variables that mica_pull
 * reads. */
hub_test hub_test_open(void);
void hub_test_close(hub_test *t);

/* Options for that hub and cache, without a token. */
mica_pull_options hub_test_options(const hub_test *t);

/* mica_pull with hub_test_options. */
mica_status hub_test_pull(const hub_test *t, const char *name, char **folder);

/* Lets org/model have faults (mock_hub.h). */
void hub_test_fail(const hub_test *t, const char *faults);

/* Checks that a snapshot has the repository's file. */
void hub_test_check_file(const hub_test *t, const char *snapshot, const char *file);

/* Checks that org/model is whole in the cache, then frees its folder. */
void hub_test_check_model(const hub_test *t, char *snapshot);

/* A path in the cache's folder of org/model; freed with free. */
char *hub_test_path(const hub_test *t, const char *below);

/* The path of the blob of a file in the snapshot, freed with free. */
char *hub_test_blob(const hub_test *t, const char *file);

/* The number of files of org/model in the cache whose names end so. */
size_t hub_test_count(const hub_test *t, const char *below, const char *suffix);

#endif
