/* Input: the files of an embedder's folder, each up to a NUL: modules.json, the config.json of
 * 1_Pooling and of 2_Dense, sentence_bert_config.json, config_sentence_transformers.json. The model
 * has a hidden size of 8, and 2_Dense a matrix [4, 8]. What cannot be followed has an error text;
 * prompts are found by their names, or not. */
#define _XOPEN_SOURCE 700
#include "model/load/load.h"
#include "model/sentence.h"

#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HIDDEN = 8, OUT = 4, FILES = 5 };

static const char *const names[FILES] = {"modules.json", "1_Pooling/config.json",
                                         "2_Dense/config.json", "sentence_bert_config.json",
                                         "config_sentence_transformers.json"};

static void must(bool truth) {
    if (!truth) abort();
}

static void write_file(const char *name, const void *data, size_t size) {
    FILE *out = fopen(fuzz_scratch(name), "wb");
    must(out && fwrite(data, 1, size, out) == size && fclose(out) == 0);
}

/* The names of files come before those of their folders: so they are removed. */
static void make_folders(void) {
    static const char header[] = "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[4,8],"
                                 "\"data_offsets\":[0,128]}}";
    static char file[8 + sizeof header - 1 + sizeof(float[OUT * HIDDEN])];
    uint64_t length = sizeof header - 1;
    memcpy(file, &length, sizeof length);
    memcpy(file + 8, header, sizeof header - 1);
    for (int i = 0; i < FILES; i++)
        fuzz_scratch(names[i]);
    fuzz_scratch("2_Dense/model.safetensors");
    must(mkdir(fuzz_scratch("1_Pooling"), 0700) == 0 && mkdir(fuzz_scratch("2_Dense"), 0700) == 0);
    write_file("2_Dense/model.safetensors", file, sizeof file);
}

/* Writes the files; the last one has the rest. */
static void write_files(const uint8_t *data, size_t size) {
    for (int i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t n = end && i + 1 < FILES ? (size_t)(end - data) : size;
        write_file(names[i], n ? (const void *)data : "", n);
        data += end && i + 1 < FILES ? n + 1 : n;
        size -= end && i + 1 < FILES ? n + 1 : n;
    }
}

static void use(const mc_sentence *sentence) {
    static const char *const prompts[] = {"query", "document", ""};
    mc_str prompt;
    if (mc_sentence_check(sentence) != MICA_OK) must(*mica_last_error() != '\0');
    must(sentence->n_dense <= MC_SENTENCE_DENSE);
    int64_t width = mc_sentence_width(sentence, HIDDEN);
    must(width == HIDDEN || width == OUT || sentence->status != MICA_OK);
    for (size_t i = 0; i < 3; i++)
        if (mc_sentence_prompt(sentence, mc_str_of(prompts[i]), &prompt) != MICA_OK)
            must(*mica_last_error() != '\0');
    if (mc_sentence_prompt(sentence, (mc_str){0}, &prompt) != MICA_OK)
        must(*mica_last_error() != '\0');
}

static char *folder_of(const char *path) {
    char *folder = strdup(path);
    must(folder != NULL);
    *strrchr(folder, '/') = 0;
    return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static mica_device *device;
    static char *folder;
    mc_lm lm = {.kv_dtype = MICA_F32};
    if (!device) {
        must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) == MICA_OK);
        make_folders();
        folder = folder_of(fuzz_scratch(names[0]));
    }
    lm.spec = (mc_decoder_spec){.family = "fuzz", .hidden = HIDDEN, .vocab = 16, .context = 64};
    must(mica_scope_open(device, &lm.scope) == MICA_OK);
    write_files(data, size);
    if (mc_sentence_load(&lm, folder) == MICA_OK && lm.sentence) use(lm.sentence);
    mc_sentence_close(&lm.sentence);
    mica_scope_close(&lm.scope);
    return 0;
}
