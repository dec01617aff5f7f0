/* Mutates JSON as text. Values are found by their brackets, so that JSON that an earlier mutation
 * broke can be mutated again. */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

/* Values that occur in config.json, tokenizer.json, headers, indices and adapters, and hostile
 * ones. */
static const char *const numbers[] = {
    "0",
    "-0.0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "16",
    "255",
    "256",
    "65536",
    "1000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "1000000000000",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.5",
    "1e-45",
    "1e18",
    "1e308",
    "-1e308",
};

static const char *const texts[] = {
    "\"\"",
    "\"\\u0000\"",
    "\"\\u00e9\\u0301\"",
    "\" \"",
    "\"a\"",
    "\"\\ufffd\"",
    "\"<0x41>\"",
    "\"<unk>\"",
    "\"\\u2581\"",
    "\"\\u0120\"",
    "\"../../../../etc/passwd\"",
    "\"/dev/zero\"",
    "\"model.safetensors\"",
    "\"%s%n\"",
    "\"F32\"",
    "\"BF16\"",
    "\"U8\"",
    "\"F8_E4M3\"",
    "\"BOOL\"",
    "\"llama\"",
    "\"qwen2\"",
    "\"qwen3\"",
    "\"gemma2\"",
    "\"gemma3_text\"",
    "\"mistral\"",
    "\"ministral3\"",
    "\"phi3\"",
    "\"smollm3\"",
    "\"olmo3\"",
    "\"granite_swa\"",
    "\"gpt_oss\"",
    "\"qwen3_moe\"",
    "\"qwen3_5\"",
    "\"lfm2\"",
    "\"granitemoehybrid\"",
    "\"gelu\"",
    "\"silu\"",
    "\"sliding_attention\"",
    "\"llama3\"",
    "\"linear\"",
    "\"yarn\"",
    "\"longrope\"",
    "\"proportional\"",
    "\"affine\"",
    "\"mxfp4\"",
    "\"BPE\"",
    "\"Unigram\"",
    "\"Sequence\"",
    "\"Isolated\"",
    "\"Removed\"",
    "\"MergedWithNext\"",
    "\"always\"",
    "\"never\"",
    "\"lora\"",
    "\"dora\"",
    "\"(?:(?=(?:.|.|.|.){11}\\\\x00)|).\"",
    "\"(\\\\p{L}+)+\\\\d\"",
    "\"(a|a|b?)*$\"",
    "\".*\"",
    "\"[\"",
    "\"\\\\p{Lu}{1000}{1000}\"",
};

/* Steps of a tokenizer. */
static const char *const steps[] = {
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aa\"}",
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"a\"}",
    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \".\"}, \"content\": \"aaaaaaaaaaaaaaaa\"}",
    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(a|a|b?)*$\"}, \"content\": \"\"}",
    "{\"type\": \"Prepend\", \"prepend\": \"\\u2581\"}",
    "{\"type\": \"Strip\", \"content\": \"a\", \"start\": 1, \"stop\": 1}",
    "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}",
    "{\"type\": \"Lowercase\"}",
    "{\"type\": \"ByteFallback\"}",
    "{\"type\": \"Fuse\"}",
    "{\"type\": \"NFC\"}",
    "{\"type\": \"NFKD\"}",
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?:(?=(?:.|.|.|.){11}\\\\x00)|).\"}, "
    "\"behavior\": \"Isolated\", \"invert\": false}",
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\\\\p{L}+)+\\\\d\"}, \"behavior\": "
    "\"Removed\", \"invert\": true}",
    "{\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": \"Isolated\", "
    "\"invert\": "
    "false}",
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": "
    "true}",
    "{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", \"prepend_scheme\": \"first\", "
    "\"split\": true}",
    "{\"type\": \"Digits\", \"individual_digits\": true}",
    "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": "
    "0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {}}",
};

static const char *const others[] = {
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "[0, 1]",
    "NaN",
    "1e999",
    "\"\\ud800\"",
    "[-1, 9223372036854775807]",
    "[4294967296, 4294967296]",
    "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
    ("{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
     "\"original_max_position_embeddings\": 8192}"),
    "{\"rope_type\": \"yarn\", \"factor\": 8, \"rope_theta\": 1, \"truncate\": false}",
    ("{\"rope_type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [1e-6, 1e9], "
     "\"original_max_position_embeddings\": 1}"),
    "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.001}",
    "{\"llama_4_scaling_beta\": 1e6, \"original_max_position_embeddings\": 1}",
    "{\"__float__\": \"Infinity\"}",
    "{\"group_size\": 64, \"bits\": 4}",
    "{\"group_size\": 32, \"bits\": 8, \"mode\": \"mxfp8\"}",
};

static const char *const lists[] = {"normalizers", "pretokenizers", "decoders", "processors"};

typedef struct value {
    size_t key, at, end; /* offsets in bytes; key: the start of its key, or `at` */
    size_t parent;       /* an index, or NONE */
    bool container;
} value;

#define NONE ((size_t)-1)

typedef struct tree {
    mc_buffer values; /* of type value, in the text's order */
    size_t count;
} tree;

static value *at(const tree *t, size_t i) {
    return &MC_BUFFER_AT(&t->values, value)[i];
}

/* ---- finding values ---- */

static bool is_blank(char ch) {
    return ch == ' ' || ch == '\n' || ch == '\r' || ch == '\t';
}

static size_t string_end(const mc_buffer *file, size_t i) {
    for (i++; i < file->len && file->data[i] != '"'; i++)
        if (file->data[i] == '\\') i++;
    return i < file->len ? i + 1 : file->len;
}

static size_t word_end(const mc_buffer *file, size_t i) {
    size_t end = i + 1;
    while (end < file->len && !is_blank(file->data[end]) && !strchr(",:[]{}\"", file->data[end]))
        end++;
    return end;
}

static bool is_key(const mc_buffer *file, size_t end) {
    while (end < file->len && is_blank(file->data[end]))
        end++;
    return end < file->len && file->data[end] == ':';
}

static void push(tree *t, value v) {
    mutate_must(MC_BUFFER_PUSH(&t->values, value, v));
    t->count++;
}

static tree find_values(const mc_buffer *file) {
    tree t = {0};
    size_t inside = NONE, key = NONE;
    for (size_t i = 0; i < file->len;) {
        char ch = file->data[i];
        if (is_blank(ch) || ch == ',' || ch == ':') {
            i++;
        } else if (ch == '{' || ch == '[') {
            push(&t, (value){key == NONE ? i : key, i, file->len, inside, true});
            inside = t.count - 1;
            key = NONE;
            i++;
        } else if (ch == '}' || ch == ']') {
            i++;
            if (inside != NONE) at(&t, inside)->end = i;
            if (inside != NONE) inside = at(&t, inside)->parent;
            key = NONE;
        } else {
            size_t end = ch == '"' ? string_end(file, i) : word_end(file, i);
            bool named = ch == '"' && is_key(file, end);
            if (named) key = i;
            if (!named) push(&t, (value){key == NONE ? i : key, i, end, inside, false});
            if (!named) key = NONE;
            i = end;
        }
    }
    return t;
}

static size_t child(chance *c, const tree *t, size_t parent) {
    size_t chosen = NONE, seen = 0;
    for (size_t i = parent == NONE ? 0 : parent + 1; i < t->count; i++)
        if (at(t, i)->parent == parent && chance_one_in(c, ++seen)) chosen = i;
    return chosen;
}

/* Chooses a value from the root down, so that a vocabulary is as likely as a flag beside it. */
static size_t choose(chance *c, const tree *t) {
    size_t here = child(c, t, NONE);
    while (here != NONE && at(t, here)->container &&
           !chance_one_in(c, at(t, here)->parent == NONE ? 40 : 6)) {
        size_t next = child(c, t, here);
        if (next == NONE) break;
        here = next;
    }
    return here;
}

/* ---- changing them ---- */

typedef void change(chance *c, mc_buffer *file, const tree *t, value v);

static void set(mc_buffer *file, value v, const char *text) {
    mutate_splice(file, v.at, v.end, text, strlen(text));
}

static bool is_number(char ch) {
    return (ch >= '0' && ch <= '9') || ch == '-';
}

/* Usually chooses a replacement of the value's kind, which passes more checks. */
static void put_literal(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)t;
    char ch = file->data[v.at];
    const char *text = CHANCE_PICK(c, others);
    if (!chance_one_in(c, 4)) {
        if (is_number(ch)) text = CHANCE_PICK(c, numbers);
        if (ch == '"') text = CHANCE_PICK(c, texts);
        if (ch == '{') text = CHANCE_PICK(c, steps);
    }
    set(file, v, text);
}

static char *copy_of(const mc_buffer *file, size_t begin, size_t end) {
    char *text = malloc(end - begin + 1);
    mutate_must(text != NULL);
    memcpy(text, file->data + begin, end - begin);
    text[end - begin] = 0;
    return text;
}

static void put_other(chance *c, mc_buffer *file, const tree *t, value v) {
    value other = *at(t, choose(c, t));
    char *text = copy_of(file, other.at, other.end);
    set(file, v, text);
    free(text);
}

/* Also removes a comma. */
static void drop(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)c, (void)t;
    size_t begin = v.key, end = v.end;
    while (end < file->len && is_blank(file->data[end]))
        end++;
    if (end < file->len && file->data[end] == ',') {
        end++;
    } else {
        while (begin > 0 && is_blank(file->data[begin - 1]))
            begin--;
        if (begin > 0 && file->data[begin - 1] == ',') begin--;
    }
    mutate_splice(file, begin, end, NULL, 0);
}

/* Repeats an element or member. */
static void repeat(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)t;
    mc_buffer more = {0};
    for (size_t n = 1 + chance_size(c); n > 0 && more.len < 1 << 18; n--)
        mutate_must(mc_buffer_add(&more, file->data + v.key, v.end - v.key) &&
                    mc_buffer_add_byte(&more, ','));
    mutate_splice(file, v.key, v.key, more.data, more.len);
    mc_buffer_deinit(&more);
}

/* Replaces a step of a tokenizer by a sequence of many. */
static void repeat_step(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)t;
    mc_buffer more = {0};
    char *step = chance_one_in(c, 2) ? copy_of(file, v.at, v.end) : NULL;
    const char *text = step ? step : CHANCE_PICK(c, steps);
    mutate_must(mc_buffer_printf(&more, "{\"type\": \"Sequence\", \"%s\": [%s",
                                 CHANCE_PICK(c, lists), text));
    for (size_t n = chance_size(c); n > 0 && more.len < 1 << 18; n--)
        mutate_must(mc_buffer_add_text(&more, ",") && mc_buffer_add_text(&more, text));
    mutate_must(mc_buffer_add_text(&more, "]}"));
    mutate_splice(file, v.at, v.end, more.data, more.len);
    mc_buffer_deinit(&more);
    free(step);
}

static void swap_names(chance *c, mc_buffer *file, const tree *t, value v) {
    value other = *at(t, choose(c, t));
    if (v.key == v.at || other.key == other.at) return;
    char *name = copy_of(file, other.key, string_end(file, other.key));
    mutate_splice(file, v.key, string_end(file, v.key), name, strlen(name));
    free(name);
}

static void nest(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)t;
    mc_buffer deep = {0};
    size_t levels = 1 + chance_size(c);
    const char *open = chance_one_in(c, 2) ? "[" : "{\"a\":";
    for (size_t i = 0; i < levels; i++)
        mutate_must(mc_buffer_add_text(&deep, open));
    mutate_must(mc_buffer_add(&deep, file->data + v.at, v.end - v.at));
    for (size_t i = 0; i < levels; i++)
        mutate_must(mc_buffer_add_byte(&deep, *open == '[' ? ']' : '}'));
    mutate_splice(file, v.at, v.end, deep.data, deep.len);
    mc_buffer_deinit(&deep);
}

/* Lengthens a number or a string. */
static void lengthen(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)t;
    static const char *const runs[] = {"0",       "9", "a",    " ",        "\\n",
                                       "\\u0000", "(", ".*",   "\xc3\xa9", "\xf0\x9f\x98\x80",
                                       "{{ ",     "[", "\xff", "\\p{L}",   "|a"};
    if (v.container) return;
    const char *run = is_number(file->data[v.at]) ? "9" : CHANCE_PICK(c, runs);
    mc_buffer text = {0};
    for (size_t n = 1 + chance_size(c); n > 0 && text.len < 1 << 18; n--)
        mutate_must(mc_buffer_add_text(&text, run));
    size_t to = v.end - (file->data[v.at] == '"' && v.end - v.at > 1);
    mutate_splice(file, to, to, text.data, text.len);
    mc_buffer_deinit(&text);
}

static void change_digit(chance *c, mc_buffer *file, const tree *t, value v) {
    (void)t;
    if (v.container) return;
    char *byte = &file->data[v.at + chance_below(c, v.end - v.at)];
    if (*byte >= '0' && *byte <= '9') *byte = (char)('0' + chance_below(c, 10));
}

void mutate_json(chance *c, mc_buffer *file) {
    static change *const changes[] = {put_literal, put_literal, put_literal, put_other,
                                      put_other,   drop,        repeat,      repeat_step,
                                      swap_names,  nest,        lengthen,    change_digit};
    if (chance_one_in(c, 16)) {
        mutate_bytes(c, file);
        return;
    }
    tree t = find_values(file);
    size_t chosen = choose(c, &t);
    if (chosen != NONE) CHANCE_PICK(c, changes)(c, file, &t, *at(&t, chosen));
    mc_buffer_deinit(&t.values);
}
