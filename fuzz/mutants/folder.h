/* The folders that mutants are made of: valid ones, from the models, adapters and chat templates of
 * tests/fixtures, whatever cases these are, and from the tokenizers and templates of
 * fuzz/corpus. */
#ifndef MUTANTS_FOLDER_H
#define MUTANTS_FOLDER_H

#include "base/buffer.h"
#include "chance.h"

typedef struct folder_list { /* names, sorted */
    char **names;
    size_t count;
} folder_list;

typedef struct folder_sources {
    const char *fixtures, *corpus;
    folder_list models, adapters, templates;
    folder_list corpus_tokenizers, corpus_templates;
} folder_sources;

/* Ends the program where there is none of a kind. */
void folder_sources_find(const char *fixtures, const char *corpus, folder_sources *s);
void folder_sources_free(folder_sources *s);

enum { PATH_BYTES = 4096 };

/* "dir/name", which ends the program where it is too long. */
void folder_join(char path[PATH_BYTES], const char *dir, const char *name);

enum { FOLDER_ADAPTER = 1, FOLDER_CORPUS = 2 };

/* Makes dir with dir/model, a whole model folder of links to the fixtures' files; input.txt and
 * prompts.json, what verbs read. With FOLDER_ADAPTER, dir/adapter, and dir/model is its base. With
 * FOLDER_CORPUS the tokenizer and the template may be those of the corpus, which are strange and
 * need not fit the model. */
void folder_make(chance *c, const folder_sources *s, unsigned kind, const char *dir);

/* Removes it, with all that is in it. */
void folder_remove(const char *dir);

/* What its files take on the disk, those that links lead to with them. */
size_t folder_bytes(const char *dir);

/* Some file of a folder, by its name. False: it holds none. */
bool folder_choose(chance *c, const char *dir, mc_buffer *name);

/* A whole file. False: there is none. */
bool folder_read(const char *path, mc_buffer *file);
/* In place of whatever is there. */
void folder_write(const char *path, const void *data, size_t size);

/* Something else where a file was: nothing, an empty file, a folder, a broken link, a FIFO, a file
 * with a hole of 3 GB behind it. */
void folder_spoil(chance *c, const char *path);

#endif
