/* The valid folders that mutants are made from: all models, adapters, chat templates and networks
 * of tests/fixtures, and the tokenizers and templates of fuzz/corpus. */
#ifndef MUTANTS_FOLDER_H
#define MUTANTS_FOLDER_H

#include "base/buffer.h"
#include "chance.h"

typedef struct folder_list { /* names, sorted */
    char **names;
    size_t count;
} folder_list;

enum { FOLDER_CASES = 3 }; /* folders of models: models, families, published */

typedef struct folder_sources {
    const char *fixtures, *corpus;
    folder_list models[FOLDER_CASES], embedders, adapters, templates, networks;
    folder_list corpus_tokenizers, corpus_templates;
    folder_list folders; /* of models and embedders, "families/lfm2_hf" */
} folder_sources;

/* Ends the program if there is none of a kind. */
void folder_sources_find(const char *fixtures, const char *corpus, folder_sources *s);
void folder_sources_free(folder_sources *s);

enum { PATH_BYTES = 4096 };

/* Writes "dir/name". Ends the program if it is too long. */
void folder_join(char path[PATH_BYTES], const char *dir, const char *name);

enum { FOLDER_ADAPTER = 1, FOLDER_CORPUS = 2, FOLDER_NETWORK = 4, FOLDER_EMBEDDER = 8 };

/* Makes dir with dir/model, a complete model folder of links to the fixtures' files, and the verbs'
 * inputs input.txt and prompts.json. `from` is the folder, one of `folders`; NULL: any of its kind.
 * With FOLDER_ADAPTER it also makes dir/adapter, and dir/model is its base. With FOLDER_CORPUS,
 * tokenizer and template may be from the corpus: these are unusual and need not fit the model. With
 * FOLDER_EMBEDDER dir/model is an embedder or a cross-encoder, with the folders of its modules and
 * its own tokenizer. With FOLDER_NETWORK it makes dir/net instead: net.onnx, what that keeps
 * outside, and its inputs, net.npz. All have keys.txt, keys of a server. */
void folder_make(chance *c, const folder_sources *s, unsigned kind, const char *from,
                 const char *dir);

/* Removes the folder and its contents. */
void folder_remove(const char *dir);

/* Size of its files on disk, including the targets of links. */
size_t folder_bytes(const char *dir);

/* Chooses a file of a folder. False: it has none. */
bool folder_choose(chance *c, const char *dir, mc_buffer *name);

/* Reads a file. False: there is none. */
bool folder_read(const char *path, mc_buffer *file);
/* Replaces the file at the path. */
void folder_write(const char *path, const void *data, size_t size);

/* Replaces a file by something else: nothing, an empty file, a folder, a broken link, a FIFO, or
 * the file with a hole of 3 GB after it. */
void folder_spoil(chance *c, const char *path);

#endif
