#define _XOPEN_SOURCE 700
#include "folder.h"

#include "base/json.h"
#include "mutate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(bool truth, const char *path) {
    if (truth) return;
    fprintf(stderr, "mutants: %s: %s\n", path, errno ? strerror(errno) : "not what it should be");
    exit(2);
}

void folder_join(char path[PATH_BYTES], const char *dir, const char *name) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    check(n > 0 && n < PATH_BYTES, dir);
}

/* ---- lists ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends(const char *name, const char *suffix) {
    size_t len = strlen(name), tail = strlen(suffix);
    return len >= tail && strcmp(name + len - tail, suffix) == 0;
}

static void add_name(folder_list *l, const char *name) {
    l->names = realloc(l->names, (l->count + 1) * sizeof *l->names);
    mutate_must(l->names != NULL);
    l->names[l->count] = strdup(name);
    mutate_must(l->names[l->count++] != NULL);
}

/* Names in dir that end in `suffix`, without hidden ones. */
static folder_list list(const char *dir, const char *suffix) {
    folder_list found = {0};
    DIR *stream = opendir(dir);
    check(stream != NULL, dir);
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] != '.' && ends(entry->d_name, suffix)) add_name(&found, entry->d_name);
    }
    closedir(stream);
    if (found.count) qsort(found.names, found.count, sizeof *found.names, by_name);
    return found;
}

static void free_list(folder_list *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
}

static folder_list list_some(const char *fixtures, const char *name, const char *suffix) {
    char dir[PATH_BYTES];
    folder_join(dir, fixtures, name);
    folder_list found = list(dir, suffix);
    errno = 0;
    check(found.count > 0, dir);
    return found;
}

/* Folders of models to make mutants of. */
static const char *const cases_of[FOLDER_CASES] = {"models", "families", "published"};

static void add_folders(folder_list *to, const char *cases, const folder_list *names) {
    char path[PATH_BYTES];
    for (size_t i = 0; i < names->count; i++) {
        folder_join(path, cases, names->names[i]);
        add_name(to, path);
    }
}

void folder_sources_find(const char *fixtures, const char *corpus, folder_sources *s) {
    *s = (folder_sources){
        .fixtures = fixtures,
        .corpus = corpus,
        .models = {list_some(fixtures, cases_of[0], ""), list_some(fixtures, cases_of[1], ""),
                   list_some(fixtures, cases_of[2], "")},
        .embedders = list_some(fixtures, "embedders", ""),
        .adapters = list_some(fixtures, "lora", ""),
        .templates = list_some(fixtures, "chat", ".json"),
        .networks = list_some(fixtures, "onnx", ".onnx"),
        .corpus_tokenizers = list_some(corpus, "tokenizer", ""),
        .corpus_templates = list_some(corpus, "template", ""),
    };
    for (int i = 0; i < FOLDER_CASES; i++)
        add_folders(&s->folders, cases_of[i], &s->models[i]);
    add_folders(&s->folders, "embedders", &s->embedders);
}

void folder_sources_free(folder_sources *s) {
    for (int i = 0; i < FOLDER_CASES; i++)
        free_list(&s->models[i]);
    free_list(&s->embedders);
    free_list(&s->adapters);
    free_list(&s->templates);
    free_list(&s->networks);
    free_list(&s->corpus_tokenizers);
    free_list(&s->corpus_templates);
    free_list(&s->folders);
}

/* ---- files ---- */

bool folder_read(const char *path, mc_buffer *file) {
    char block[1 << 15];
    FILE *in = fopen(path, "rb");
    mc_buffer_clear(file);
    if (!in) return false;
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        mutate_must(mc_buffer_add(file, block, n));
    bool good = !ferror(in);
    fclose(in);
    return good;
}

void folder_write(const char *path, const void *data, size_t size) {
    remove(path);
    FILE *out = fopen(path, "wb");
    check(out && (size == 0 || fwrite(data, 1, size, out) == size), path);
    check(fclose(out) == 0, path);
}

static void write_text(const char *dir, const char *name, const char *text) {
    char path[PATH_BYTES];
    folder_join(path, dir, name);
    folder_write(path, text, strlen(text));
}

void folder_spoil(chance *c, const char *path) {
    size_t how = chance_below(c, 6);
    int fd = how == 5 ? open(path, O_RDONLY) : -1;
    if (fd != -1) { /* longer than the file, unless it is a link */
        mc_buffer file = {0};
        close(fd);
        check(folder_read(path, &file), path);
        folder_write(path, file.data, file.len);
        mc_buffer_deinit(&file);
        check(truncate(path, (off_t)3 << 30) == 0, path);
        return;
    }
    remove(path);
    if (how == 1) folder_write(path, "", 0);
    if (how == 2) check(mkdir(path, 0700) == 0, path);
    if (how == 3) check(symlink("nowhere", path) == 0, path);
    if (how == 4) check(mkfifo(path, 0600) == 0, path);
}

bool folder_choose(chance *c, const char *dir, mc_buffer *name) {
    folder_list files = list(dir, "");
    mc_buffer_clear(name);
    if (files.count)
        mutate_must(mc_buffer_add_text(name, files.names[chance_below(c, files.count)]) &&
                    mc_buffer_cstr(name));
    bool found = files.count > 0;
    free_list(&files);
    return found;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

void folder_remove(const char *dir) {
    check(nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0, dir);
}

static size_t bytes_seen; /* nftw passes no context */

static int add_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)path, (void)where;
    if (type != FTW_F || !S_ISREG(info->st_mode)) return 0;
    size_t size = (size_t)info->st_size, taken = (size_t)info->st_blocks * 512;
    bytes_seen += size < taken ? size : taken;
    return 0;
}

size_t folder_bytes(const char *dir) {
    bytes_seen = 0;
    check(nftw(dir, add_entry, 16, 0) == 0, dir);
    return bytes_seen;
}

/* ---- valid folders ---- */

/* For models without a tokenizer: each printable ASCII byte is a token. */
static void write_tokenizer(const char *to) {
    mc_buffer text = {0};
    mutate_must(mc_buffer_add_text(&text, "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 1, "
                                          "\"content\": \"<end>\", \"special\": true}], "
                                          "\"normalizer\": {\"type\": \"NFC\"}, "
                                          "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, "
                                          "\"decoder\": {\"type\": \"ByteLevel\"}, "
                                          "\"model\": {\"type\": \"BPE\", \"vocab\": {"));
    for (char ch = '!'; ch <= '~'; ch++)
        mutate_must(mc_buffer_printf(&text, "\"%s%c\": %d, ", ch == '"' || ch == '\\' ? "\\" : "",
                                     ch, ch - '!' + 2));
    mutate_must(mc_buffer_add_text(&text, "\"\\u0120\": 0, \"he\": 97, \"hel\": 98}, "
                                          "\"merges\": [\"h e\", [\"he\", \"l\"]]}}"));
    folder_write(to, text.data, text.len);
    mc_buffer_deinit(&text);
}

/* Writes a file of a model: an input of a fuzz target, up to its first NUL. */
static void write_corpus(const folder_sources *s, const char *target, const char *name,
                         const char *to) {
    char path[PATH_BYTES];
    mc_buffer file = {0};
    int n = snprintf(path, sizeof path, "%s/%s/%s", s->corpus, target, name);
    check(n < PATH_BYTES, path);
    check(folder_read(path, &file) && mc_buffer_cstr(&file), path);
    folder_write(to, file.data, strlen(file.data));
    mc_buffer_deinit(&file);
}

static void write_template(chance *c, const folder_sources *s, const char *to) {
    char path[PATH_BYTES];
    mc_json_doc *doc = NULL;
    mc_str text;
    int n = snprintf(path, sizeof path, "%s/chat/%s", s->fixtures, CHANCE_NAME(c, s->templates));
    check(n < PATH_BYTES && mc_json_load(path, MC_FILE_TOKENIZER, &doc) == MICA_OK, path);
    if (!mc_json_get_str(mc_json_find(mc_json_root(doc), "template"), &text))
        text = MC_STR("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    folder_write(to, text.ptr, text.len);
    mc_json_close(&doc);
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Links to the files of a folder, except its goldens, and of the folders in it. */
static void link_files(const char *from, const char *to) {
    char source[PATH_BYTES], target[PATH_BYTES];
    folder_list files = list(from, "");
    check(mkdir(to, 0700) == 0, to);
    for (size_t i = 0; i < files.count; i++) {
        if (strncmp(files.names[i], "golden.", 7) == 0) continue;
        folder_join(source, from, files.names[i]);
        folder_join(target, to, files.names[i]);
        if (is_folder(source))
            link_files(source, target); /* of a module: there is one level */
        else
            check(symlink(source, target) == 0, target);
    }
    free_list(&files);
}

static void make_model(chance *c, const folder_sources *s, unsigned kind, const char *from,
                       const char *to) {
    char path[PATH_BYTES];
    link_files(from, to);
    folder_join(path, to, "tokenizer.json");
    if (kind & FOLDER_CORPUS && chance_one_in(c, 2))
        write_corpus(s, "tokenizer", CHANCE_NAME(c, s->corpus_tokenizers), path);
    else if (access(path, R_OK) != 0)
        write_tokenizer(path);
    folder_join(path, to, "chat_template.jinja");
    if (kind & FOLDER_CORPUS && chance_one_in(c, 2))
        write_corpus(s, "template", CHANCE_NAME(c, s->corpus_templates), path);
    else
        write_template(c, s, path);
    write_text(to, "generation_config.json", "{\"eos_token_id\": [1, 5], \"do_sample\": false}");
    write_text(to, "tokenizer_config.json",
               "{\"bos_token\": null, \"eos_token\": {\"content\": \"!\"}, \"pad_token\": \"!\", "
               "\"model_max_length\": 2048, \"add_bos_token\": false}");
}

/* Replaces `path`, the adapter's folder, by that of its base model. */
static void find_base(const folder_sources *s, char path[PATH_BYTES]) {
    char golden[PATH_BYTES];
    mc_json_doc *doc;
    mc_str base;
    folder_join(golden, path, "golden.json");
    check(mc_json_load(golden, MC_FILE_TOKENIZER, &doc) == MICA_OK &&
              mc_json_get_str(mc_json_find(mc_json_root(doc), "base"), &base),
          golden);
    int n = snprintf(path, PATH_BYTES, "%s/%.*s", s->fixtures, MC_STR_ARG(base));
    check(n < PATH_BYTES, path);
    mc_json_close(&doc);
}

/* A network by the names net.onnx and net.npz, and links to the data that networks have outside. */
static void make_network(chance *c, const folder_sources *s, const char *dir) {
    static const char *const endings[] = {".onnx", ".npz"};
    char from[PATH_BYTES], to[PATH_BYTES];
    const char *name = CHANCE_NAME(c, s->networks);
    int stem = (int)(strlen(name) - strlen(endings[0]));
    folder_join(from, s->fixtures, "onnx");
    folder_list data = list(from, ".data");
    folder_join(to, dir, "net");
    check(mkdir(to, 0700) == 0, to);
    for (size_t i = 0; i < data.count; i++) {
        check(snprintf(from, sizeof from, "%s/onnx/%s", s->fixtures, data.names[i]) < PATH_BYTES &&
                  snprintf(to, sizeof to, "%s/net/%s", dir, data.names[i]) < PATH_BYTES,
              dir);
        check(symlink(from, to) == 0, to);
    }
    for (size_t i = 0; i < 2; i++) {
        check(snprintf(from, sizeof from, "%s/onnx/%.*s%s", s->fixtures, stem, name, endings[i]) <
                      PATH_BYTES &&
                  snprintf(to, sizeof to, "%s/net/net%s", dir, endings[i]) < PATH_BYTES,
              dir);
        check(symlink(from, to) == 0, to);
    }
    free_list(&data);
}

static void write_inputs(const char *dir) {
    write_text(dir, "input.txt", "Hello, world! 123\nAnd more?\n");
    write_text(
        dir, "prompts.json",
        "{\"prompt\": \"Hello\", \"max_tokens\": 3}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What\"}], \"max_tokens\": 2}\n");
    write_text(dir, "keys.txt", "# of all\nsk-first-key-0123456789\n\nsk-second-key-0123456789\n");
}

/* The path of a model or an adapter, below the fixtures' folder; NULL of `from`: by chance. */
static void choose_case(chance *c, const folder_sources *s, unsigned kind, const char *from,
                        char path[PATH_BYTES]) {
    size_t at = chance_below(c, FOLDER_CASES);
    const char *cases = kind & FOLDER_ADAPTER    ? "lora"
                        : kind & FOLDER_EMBEDDER ? "embedders"
                                                 : cases_of[at];
    const folder_list *names = kind & FOLDER_ADAPTER    ? &s->adapters
                               : kind & FOLDER_EMBEDDER ? &s->embedders
                                                        : &s->models[at];
    int n =
        from ? snprintf(path, PATH_BYTES, "%s/%s", s->fixtures, from)
             : snprintf(path, PATH_BYTES, "%s/%s/%s", s->fixtures, cases, CHANCE_NAME(c, *names));
    check(n < PATH_BYTES, path);
}

void folder_make(chance *c, const folder_sources *s, unsigned kind, const char *from,
                 const char *dir) {
    char source[PATH_BYTES], to[PATH_BYTES];
    check(mkdir(dir, 0700) == 0, dir);
    write_inputs(dir);
    if (kind & FOLDER_NETWORK) {
        make_network(c, s, dir);
        return;
    }
    choose_case(c, s, kind, from, source);
    if (kind & FOLDER_ADAPTER) {
        folder_join(to, dir, "adapter");
        link_files(source, to);
        find_base(s, source);
    }
    folder_join(to, dir, "model");
    if (kind & FOLDER_EMBEDDER)
        link_files(source, to);
    else
        make_model(c, s, kind, source, to);
}
