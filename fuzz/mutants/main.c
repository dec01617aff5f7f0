/* Changes valid model folders, adapters, sessions, networks, their inputs, and keys of a server,
 * lets the command read them, and checks how it ends:
 *
 *   mutants [options] MICA FIXTURES CORPUS
 *     --count N      number of mutants (5000); with --folders, of each folder
 *     --folders      configs, tensors, GGUF files and modules of the models' folders in turn
 *     --first SEED   seed of the first mutant; the next ones follow in order (1)
 *     --jobs N       number of parallel processes (1)
 *     --keep DIR     where to keep mutants that failed; without it they are removed
 *     --sanitized    MICA has sanitizers: its time counts a tenth, its memory does not count
 *
 * A seed makes the same mutant of the same fixtures. For each mutant, the command must exit with 0,
 * 1, 2 or 130, with a text unless it is 0, within a second of CPU time, in at most 20 times the
 * memory of the folder's files plus 64 MB, and no control character of a file may be in what it
 * says on stderr. Prints a line for each failure, then a table of what was changed, or with
 * --folders of the folders; returns 1 if there was one. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE  /* MAP_ANONYMOUS */
#define _DARWIN_C_SOURCE /* mkdtemp, too */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "folder.h"
#include "mutate.h"

enum {
    MAX_JOBS = 64,
    WORDS = 16,
    COMMANDS = 2, /* run for each mutant */
};

static const double max_seconds = 1.0;
static const size_t max_times = 20, max_bytes_more = (size_t)64 << 20;

/* ---- mutations, and their readers ---- */

enum {
    ALL = 1,
    CHAT = 2,
    TOKENS = 4,
    ADAPTER = 8,
    SESSION = 16,
    NETWORK = 32,
    PROGRAM = 64,
    SERVER = 128,
    EMBEDDER = 256,
    GGUF = 512,
};

typedef struct part {
    const char *name, *folder, *file; /* file NULL: any file of the folder */
    mutation *mutate;                 /* NULL: the file is replaced by something else */
    unsigned readers;
} part;

static const part parts[] = {
    {"config", "model", "config.json", mutate_json, ALL | CHAT},
    {"tensors", "model", NULL, mutate_tensors, ALL},
    {"tokenizer", "model", "tokenizer.json", mutate_json, TOKENS | CHAT},
    {"tokenizer config", "model", "tokenizer_config.json", mutate_json, TOKENS | CHAT},
    {"generation config", "model", "generation_config.json", mutate_json, CHAT},
    {"template", "model", "chat_template.jinja", mutate_template, CHAT},
    {"adapter config", "adapter", "adapter_config.json", mutate_json, ADAPTER},
    {"adapter tensors", "adapter", NULL, mutate_tensors, ADAPTER},
    {"session", ".", "talk.cache", mutate_session, SESSION},
    {"conversation", ".", "talk", mutate_json, SESSION},
    {"network", "net", "net.onnx", mutate_bytes, NETWORK},
    {"network's data", "net", NULL, NULL, NETWORK},
    {"inputs", "net", "net.npz", mutate_bytes, PROGRAM},
    {"program", "net", "net.mica", mutate_program, PROGRAM},
    {"keys", ".", "keys.txt", mutate_bytes, SERVER},
    {"files", "model", NULL, NULL, ALL | CHAT | TOKENS},
    {"GGUF", ".", "model.gguf", mutate_gguf, GGUF},
    {"encoder config", "model", "config.json", mutate_json, EMBEDDER},
    {"encoder tensors", "model", NULL, mutate_tensors, EMBEDDER},
    {"pairs", "model", "tokenizer.json", mutate_json, EMBEDDER},
    {"modules", "model", "modules.json", mutate_json, EMBEDDER},
    {"pooling", "model/1_Pooling", "config.json", mutate_json, EMBEDDER},
    {"dense", "model/2_Dense", "config.json", mutate_json, EMBEDDER},
    {"dense tensors", "model/2_Dense", "model.safetensors", mutate_tensors, EMBEDDER},
    {"text limits", "model", "sentence_bert_config.json", mutate_json, EMBEDDER},
    {"prompts", "model", "config_sentence_transformers.json", mutate_json, EMBEDDER},
};

enum { PARTS = sizeof parts / sizeof *parts };

typedef struct command {
    unsigned reads;
    const char *words[WORDS];
} command;

#define TEXT "Hello, world! The 3 words <|im_end|> \xc3\xa9\xe4\xb8\xad hello hello hello"

static const command commands[] = {
    {ALL | CHAT, {"run", "-m", "model", "-t", "1", "-n", "4", "-c", "256", TEXT}},
    {ALL | CHAT, {"run", "-m", "model", "-t", "1", "-n", "4", "--arithmetic", "exact", TEXT}},
    {ALL, {"generate", "-m", "model", "-t", "1", "-n", "4", "--cache", "int8", "-T", "1", TEXT}},
    {ALL, {"generate", "-m", "model", "-t", "1", "-n", "4", "--draft-tokens", "3", TEXT}},
    {ALL | CHAT, {"chat", "-m", "model", "-t", "1", "-n", "3", "-S", "Be brief."}},
    {ALL, {"show", "model"}},
    {ALL, {"show", "--json", "model"}},
    {ALL, {"list"}},
    {ALL, {"embed", "-m", "model", "-t", "1", "input.txt"}},
    {ALL, {"score", "-m", "model", "-t", "1", "--tokens", TEXT}},
    {ALL, {"eval", "-m", "model", "-t", "1", "-w", "16", TEXT}},
    {ALL, {"classify", "-m", "model", "-t", "1", "--label", "a", "input.txt"}},
    {ALL | CHAT, {"batch", "-m", "model", "-t", "1", "prompts.json"}},
    {TOKENS, {"tokenize", "-m", "model", TEXT}},
    {TOKENS, {"tokenize", "-m", "model", "--ids", "-"}},
    {TOKENS, {"tokenize", "-m", "model", "-d", "0 1 2 3 65 66 67 99 100 101 300 479"}},
    {ADAPTER, {"run", "-m", "model", "-a", "adapter", "-t", "1", "-n", "4", "-c", "256", TEXT}},
    {ADAPTER, {"score", "-m", "model", "-a", "adapter", "-t", "1", TEXT}},
    {ADAPTER, {"show", "-a", "adapter", "model"}},
    {SESSION, {"chat", "-m", "model", "-t", "1", "-n", "3", "--session", "talk"}},
    {NETWORK, {"convert", "-t", "1", "net/net.onnx", "net/new.mica"}},
    {PROGRAM, {"program", "show", "net/net.mica"}},
    {PROGRAM, {"program", "-t", "1", "--input", "net/net.npz", "run", "net/net.mica"}},
    {PROGRAM,
     {"program", "-t", "1", "--cast", "--input", "net/net.npz", "-o", "all.npz", "run",
      "net/net.mica"}},
    {GGUF, {"convert", "--quiet", "-t", "1", "model.gguf", "made"}},
    {GGUF, {"show", "model.gguf"}},
    {GGUF, {"run", "-m", "model.gguf", "-t", "1", "-n", "4", "-c", "256", TEXT}},
    {EMBEDDER, {"embed", "-m", "model", "-t", "1", "input.txt"}},
    {EMBEDDER,
     {"embed", "-m", "model", "-t", "1", "--pooling", "mean", "--dimensions", "4", "input.txt"}},
    {EMBEDDER, {"embed", "-m", "model", "-t", "1", "--prompt-name", "query", "input.txt"}},
    {EMBEDDER, {"rerank", "-m", "model", "-t", "1", "--query", TEXT, "input.txt"}},
    {EMBEDDER, {"show", "model"}},
    /* An address of documentation: it ends when it is to listen there. */
    {SERVER,
     {"serve", "-m", "model", "--host", "192.0.2.1", "--port", "0", "--api-key-file", "keys.txt"}},
    {SERVER,
     {"serve", "-m", "model", "--host", "192.0.2.1", "--port", "0", "--insecure", "--tls-cert",
      "keys.txt", "--tls-key", "keys.txt"}},
};

static size_t count_words(const command *cmd) {
    size_t n = 0;
    while (n < WORDS && cmd->words[n])
        n++;
    return n;
}

/* ---- counts, shared by the processes ---- */

typedef struct counts {
    _Atomic size_t mutants, good, refused, bad; /* good, refused, bad: runs of the command */
    _Atomic size_t milliseconds, megabytes;     /* maxima of one run */
} counts;

static void raise_to(_Atomic size_t *most, size_t value) {
    size_t now = *most;
    while (now < value && !atomic_compare_exchange_weak(most, &now, value))
        continue;
}

/* ---- one mutant ---- */

typedef struct job {
    folder_sources sources;
    child_options child;
    char *mica, *keep; /* absolute paths */
    char scratch[64];
    size_t first, count, jobs;
    bool by_folder;
    counts *counts; /* of each part, or of each folder */
} job;

static const char *folder_of(const job *j, size_t seed) {
    const folder_list *all = &j->sources.folders;
    return j->by_folder ? all->names[seed % all->count] : NULL;
}

static counts *counts_of(const job *j, size_t seed, const part *p) {
    return &j->counts[j->by_folder ? seed % j->sources.folders.count : (size_t)(p - parts)];
}

/* The first control character but line ends and tabs; NULL: none. */
static const char *find_control(const char *text) {
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && !strchr("\n\t\r", *text)) || *text == 0x7f) return text;
    return NULL;
}

/* Checks a run. Returns true if it failed, and sets `why`. */
static bool is_bad(const job *j, const child_result *r, const char *errors, const char *output,
                   size_t room, char why[PATH_BYTES]) {
    double seconds = j->child.sanitized ? r->seconds / 10 : r->seconds;
    const char *text = NULL;
    if (r->code < 0)
        snprintf(why, PATH_BYTES, "ended by signal %d (%s)", -r->code, strsignal(-r->code));
    else if (r->code > 2 && r->code != 130)
        snprintf(why, PATH_BYTES, "exit code %d", r->code);
    else if (seconds > max_seconds)
        snprintf(why, PATH_BYTES, "%.1f s of CPU time", r->seconds);
    else if (!j->child.sanitized && r->memory_bytes > room)
        snprintf(why, PATH_BYTES, "%zu MB of memory, %zu are allowed", r->memory_bytes >> 20,
                 room >> 20);
    else if (r->code != 0 && !strstr(errors, "mica: ") && !strstr(output, "\"error\": \""))
        text = "no text on a failure";
    else if (strstr(errors, "out of memory"))
        text = "it asked for more memory than there is";
    else if (find_control(errors))
        text = "a control character on the terminal";
    else if (strstr(errors, "please report it"))
        text = "an internal error";
    else
        return false;
    if (text) snprintf(why, PATH_BYTES, "%s", text);
    return true;
}

static mc_buffer read_text(const char *dir, const char *name) {
    char path[PATH_BYTES];
    mc_buffer text = {0};
    folder_join(path, dir, name);
    folder_read(path, &text);
    mutate_must(mc_buffer_cstr(&text) != NULL);
    return text;
}

static bool run_command(const job *j, size_t seed, const part *p, const command *cmd,
                        const char *dir, size_t room) {
    char why[PATH_BYTES];
    counts *n = counts_of(j, seed, p);
    child_options options = j->child;
    options.dir = dir;
    child_result r = child_run(&options, cmd->words, count_words(cmd));
    raise_to(&n->milliseconds, (size_t)(r.seconds * 1000));
    raise_to(&n->megabytes, r.memory_bytes >> 20);
    mc_buffer errors = read_text(dir, "errors.txt"), output = read_text(dir, "output.txt");
    bool bad = is_bad(j, &r, errors.data, output.data, room, why);
    if (bad) {
        printf("mutant %zu (%s): %s\n  cd %s && mica", seed, p->name, why, dir);
        for (size_t i = 0; i < count_words(cmd); i++)
            printf(strchr(cmd->words[i], ' ') ? " '%s'" : " %s", cmd->words[i]);
        printf("\n  %.300s%s", errors.data,
               errors.len && errors.data[errors.len - 1] == '\n' ? "" : "\n");
        fflush(stdout);
    }
    ++*(bad ? &n->bad : r.code == 0 ? &n->good : &n->refused);
    mc_buffer_deinit(&errors);
    mc_buffer_deinit(&output);
    return !bad;
}

/* Saves a conversation of two turns, from the folder before it is changed. */
static void make_session(const job *j, const char *dir) {
    static const command talk = {
        0, {"chat", "-m", "model", "-t", "1", "-n", "3", "--session", "talk"}};
    child_options options = j->child;
    options.dir = dir;
    if (child_run(&options, talk.words, count_words(&talk)).code == 0) return;
    fprintf(stderr, "mutants: no session from the valid folder %s\n", dir);
    exit(2);
}

/* Makes the file that is to be changed, of a folder that is valid yet; false: of a network that
 * needs numbers for lengths there is no program, and of some models no GGUF file. */
static bool make_file(const job *j, unsigned readers, const char *dir) {
    static const command makers[] = {
        {PROGRAM, {"convert", "--quiet", "-t", "1", "net/net.onnx", "net/net.mica"}},
        {GGUF, {"convert", "--quiet", "-t", "1", "model", "model.gguf"}}};
    child_options options = j->child;
    options.dir = dir;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (readers & makers[i].reads) {
            int code = child_run(&options, makers[i].words, count_words(&makers[i])).code;
            if (code == 1 || code == 2) return false;
            if (code == 0) continue;
            fprintf(stderr, "mutants: convert ended by %d in the valid folder %s\n", code, dir);
            exit(2);
        }
    return true;
}

/* Makes a folder, and in it what is to be changed of it. */
static bool make_folder(const job *j, chance *c, size_t seed, const part *p, const char *dir) {
    unsigned kind = p->readers & ADAPTER ? FOLDER_ADAPTER : 0;
    if (p->mutate == mutate_template || p->readers & TOKENS) kind |= FOLDER_CORPUS;
    if (p->readers & (NETWORK | PROGRAM)) kind |= FOLDER_NETWORK;
    if (p->readers & EMBEDDER) kind |= FOLDER_EMBEDDER;
    if (access(dir, F_OK) == 0) folder_remove(dir);
    folder_make(c, &j->sources, kind, folder_of(j, seed), dir);
    if (p->readers & SESSION) make_session(j, dir);
    return make_file(j, p->readers, dir);
}

/* Whether a part is of a folder: with --folders, of what is not the same in all of them. */
static bool is_part(const part *p, const char *folder) {
    if (!folder) return true;
    if (strncmp(folder, "embedders/", 10) == 0) return p->readers & EMBEDDER;
    return p->readers & GGUF || (p->mutate && p->readers & ALL);
}

/* Chooses a part, and makes its folder. */
static const part *choose(const job *j, chance *c, size_t seed, const char *dir) {
    for (int i = 0; i < 99; i++) {
        const part *p = &parts[chance_below(c, PARTS)];
        if (is_part(p, folder_of(j, seed)) && make_folder(j, c, seed, p, dir)) return p;
    }
    fprintf(stderr, "mutants: nothing can be made of the valid folder %s\n", dir);
    exit(2);
}

static void change(chance *c, const part *p, const char *dir) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    mc_buffer name = {0}, file = {0};
    folder_join(folder, dir, p->folder);
    if (p->file)
        mutate_must(mc_buffer_add_text(&name, p->file) && mc_buffer_cstr(&name));
    else
        do
            mutate_must(folder_choose(c, folder, &name));
        while (p->mutate && !strstr(name.data, ".safetensors"));
    folder_join(path, folder, name.data);
    if (!p->mutate) {
        folder_spoil(c, path);
    } else if (folder_read(path, &file)) {
        bool json = strstr(name.data, ".json") != NULL; /* an index of shards */
        for (size_t n = chance_one_in(c, 2) ? 1 : 1 + chance_below(c, 4); n > 0; n--)
            (json ? mutate_json : p->mutate)(c, &file);
        folder_write(path, file.data, file.len);
    }
    mc_buffer_deinit(&name);
    mc_buffer_deinit(&file);
}

static bool make_and_run(const job *j, size_t seed) {
    chance c = {seed};
    char dir[PATH_BYTES], name[32];
    snprintf(name, sizeof name, "%zu", seed);
    folder_join(dir, j->keep ? j->keep : j->scratch, name);
    const part *p = choose(j, &c, seed, dir);
    change(&c, p, dir);
    size_t room = folder_bytes(dir) * max_times + max_bytes_more;
    bool good = true;
    for (size_t n = 0; n < COMMANDS;) {
        const command *cmd = &CHANCE_PICK(&c, commands);
        if (!(cmd->reads & p->readers)) continue;
        good &= run_command(j, seed, p, cmd, dir, room);
        n++;
    }
    if (good || !j->keep) folder_remove(dir);
    counts_of(j, seed, p)->mutants++;
    return good;
}

/* ---- all of them ---- */

static void run_share(const job *j, size_t share) {
    bool good = true;
    for (size_t i = share; i < j->count; i += j->jobs)
        good &= make_and_run(j, j->first + i);
    exit(good ? 0 : 1);
}

static bool run_all(const job *j) {
    pid_t children[MAX_JOBS];
    bool good = true;
    for (size_t i = 0; i < j->jobs; i++) {
        children[i] = fork();
        if (children[i] == 0) run_share(j, i);
        if (children[i] == -1) good = false;
    }
    for (size_t i = 0; i < j->jobs; i++) {
        int status = 1;
        while (children[i] > 0 && waitpid(children[i], &status, 0) == -1 && errno == EINTR)
            continue;
        good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return good;
}

static void print_table(const job *j) {
    const folder_list *folders = &j->sources.folders;
    printf("%-32s %8s %8s %8s %8s %8s %8s\n", "", "mutants", "exit 0", "refused", "bad", "most ms",
           "most MB");
    for (size_t i = 0; i < (j->by_folder ? folders->count : PARTS); i++) {
        counts *n = &j->counts[i];
        printf("%-32s %8zu %8zu %8zu %8zu %8zu %8zu\n",
               j->by_folder ? folders->names[i] : parts[i].name, n->mutants, n->good, n->refused,
               n->bad, n->milliseconds, n->megabytes);
    }
}

static int usage(void) {
    fputs("usage: mutants [--count N] [--folders] [--first SEED] [--jobs N] [--keep DIR] "
          "[--sanitized] MICA FIXTURES CORPUS\n",
          stderr);
    return 2;
}

static bool parse_number(const char *text, size_t min, size_t max, size_t *number) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *number = (size_t)value;
    return errno == 0 && end != text && !*end && value >= min && value <= max;
}

/* Returns the number of arguments that are options; 0 if they are wrong. */
static int parse_options(job *j, int argc, char **argv) {
    int i = 1;
    bool good = true;
    for (; good && i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *name = argv[i] + 2;
        if (strcmp(name, "sanitized") == 0) {
            j->child.sanitized = true;
            continue;
        }
        if (strcmp(name, "folders") == 0) {
            j->by_folder = true;
            continue;
        }
        if (++i == argc) return 0;
        if (strcmp(name, "keep") == 0)
            j->keep = realpath(argv[i], NULL), good = j->keep != NULL;
        else if (strcmp(name, "count") == 0)
            good = parse_number(argv[i], 1, 1u << 30, &j->count);
        else if (strcmp(name, "first") == 0)
            good = parse_number(argv[i], 0, 1u << 30, &j->first);
        else if (strcmp(name, "jobs") == 0)
            good = parse_number(argv[i], 1, MAX_JOBS, &j->jobs);
        else
            good = false;
    }
    return good ? i : 0;
}

int main(int argc, char **argv) {
    job j = {.count = 5000, .first = 1, .jobs = 1, .scratch = "/tmp/mica-mutants-XXXXXX"};
    int first = parse_options(&j, argc, argv);
    if (first == 0 || argc - first != 3) return usage();
    j.mica = realpath(argv[first], NULL);
    j.child.mica = j.mica;
    char *fixtures = realpath(argv[first + 1], NULL), *corpus = realpath(argv[first + 2], NULL);
    if (!j.mica || !fixtures || !corpus || !mkdtemp(j.scratch)) {
        perror("mutants");
        return 2;
    }
    folder_sources_find(fixtures, corpus, &j.sources);
    if (j.by_folder) j.count *= j.sources.folders.count;
    size_t rows = j.by_folder ? j.sources.folders.count : PARTS;
    j.counts = mmap(NULL, rows * sizeof *j.counts, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mutate_must(j.counts != MAP_FAILED);
    bool good = run_all(&j);
    print_table(&j);
    folder_sources_free(&j.sources);
    folder_remove(j.scratch);
    free(fixtures);
    free(corpus);
    free(j.mica);
    free(j.keep);
    return good ? 0 : 1;
}
