#include "text/chat/chat_template.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/json.h"
#include "text/chat/chat_shape.h"
#include "text/find.h"
#include "text/jinja/jinja.h"

#include <string.h>

/* The special tokens that transformers gives to a template by name. */
static const char *const special_tokens[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
};

enum { SPECIAL_TOKENS = sizeof special_tokens / sizeof *special_tokens };

struct mc_chat_template {
    mc_jinja *usual;
    mc_jinja *tool_use;             /* NULL: `usual` is used with tools, too */
    bool developer;                 /* some of them has the word */
    mc_buffer source;               /* the text of the last of them that was parsed */
    mc_json_doc *config;            /* tokenizer_config.json, or NULL */
    mc_json_doc *map;               /* special_tokens_map.json, or NULL */
    mc_str special[SPECIAL_TOKENS]; /* texts, in these; ptr NULL: none */
};

/* -- loading -- */

static mica_status path_of(const char *folder, const char *name, mc_buffer *path) {
    mc_buffer_clear(path);
    if (mc_buffer_printf(path, "%s/%s", folder, name) && mc_buffer_cstr(path)) return MICA_OK;
    return mc_fail_nomem("a path");
}

static mica_status parse(mc_chat_template *t, mc_str source, const char *name, mc_jinja **to) {
    t->developer = t->developer || mc_find(source, MC_STR("developer"), 0) < source.len;
    bool kept = t->source.len && to == &t->usual; /* that for tools was parsed before */
    if (!kept) {
        mc_buffer_clear(&t->source);
        if (!mc_buffer_add(&t->source, source.ptr, source.len))
            return mc_fail_nomem("a chat template");
    }
    return mc_jinja_parse(source, name, to);
}

static mica_status load_jinja(const char *path, mc_chat_template *t) {
    mc_filemap map = {0};
    MC_TRY(mc_filemap_read(path, MC_FILE_CHAT_TEMPLATE, 0, NULL, &map));
    mc_str text = {map.data ? (const char *)map.data : "", map.size};
    if (mc_str_starts(text, MC_STR("\xEF\xBB\xBF"))) text = mc_str_from(text, 3); /* U+FEFF */
    mica_status status = parse(t, text, path, &t->usual);
    mc_filemap_close(&map);
    return status;
}

/* Loads one template of a list. Only those named default and tool_use are kept. */
static mica_status load_named(mc_json entry, const char *path, mc_chat_template *t) {
    mc_str name, source;
    if (!mc_json_get_str(mc_json_find(entry, "name"), &name) ||
        !mc_json_get_str(mc_json_find(entry, "template"), &source)) {
        return mc_fail(MICA_EFORMAT,
                       "%s: chat_template: an element of a list has \"name\" and \"template\"",
                       path);
    }
    bool usual = mc_str_is(name, "default");
    if (!usual && !mc_str_is(name, "tool_use")) return MICA_OK;
    mc_jinja **to = usual ? &t->usual : &t->tool_use;
    mc_jinja_close(to);
    return parse(t, source, path, to);
}

/* Loads the value of "chat_template" in a JSON file. */
static mica_status load_value(mc_json v, const char *path, mc_chat_template *t) {
    mc_str source;
    if (!mc_json_exists(v)) return MICA_OK;
    if (mc_json_get_str(v, &source)) return parse(t, source, path, &t->usual);
    if (mc_json_get_type(v) != MC_JSON_ARRAY)
        return mc_fail(MICA_EFORMAT, "%s: chat_template is neither text nor a list", path);
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);)
        MC_TRY(load_named(it.value, path, t));
    if (t->usual) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: chat_template: the list has no template named \"default\"",
                   path);
}

/* Reads those tokens that are not known yet. */
static mica_status read_special(const char *path, mc_json root, mc_chat_template *t) {
    for (size_t i = 0; i < SPECIAL_TOKENS; i++) {
        mc_json v = mc_json_find(root, special_tokens[i]);
        if (t->special[i].ptr || !mc_json_exists(v) || mc_json_get_str(v, &t->special[i])) continue;
        if (!mc_json_get_str(mc_json_find(v, "content"), &t->special[i])) {
            return mc_fail(MICA_EFORMAT, "%s: %s is neither text nor an object with \"content\"",
                           path, special_tokens[i]);
        }
    }
    return MICA_OK;
}

static mica_status load_chat_json(const char *path, mc_chat_template *t) {
    mc_json_doc *doc = NULL;
    MC_TRY(mc_json_load(path, MC_FILE_CHAT_TEMPLATE, &doc));
    mica_status status = load_value(mc_json_find(mc_json_root(doc), "chat_template"), path, t);
    mc_json_close(&doc);
    return status;
}

static mica_status load_parts(const char *folder, const char *given, mc_buffer *path,
                              mc_chat_template *t) {
    if (given) MC_TRY(parse(t, mc_str_of(given), "the given chat template", &t->usual));
    MC_TRY(path_of(folder, "chat_template.jinja", path));
    if (!t->usual && mc_path_is_file(path->data)) MC_TRY(load_jinja(path->data, t));
    MC_TRY(path_of(folder, "tokenizer_config.json", path));
    if (mc_path_is_file(path->data)) {
        MC_TRY(mc_json_load(path->data, MC_FILE_TOKENIZER_CONFIG, &t->config));
        MC_TRY(read_special(path->data, mc_json_root(t->config), t));
        mc_json v = mc_json_find(mc_json_root(t->config), "chat_template");
        if (!t->usual) MC_TRY(load_value(v, path->data, t));
    }
    MC_TRY(path_of(folder, "special_tokens_map.json", path));
    if (mc_path_is_file(path->data)) {
        MC_TRY(mc_json_load(path->data, MC_FILE_TOKENIZER_CONFIG, &t->map));
        MC_TRY(read_special(path->data, mc_json_root(t->map), t));
    }
    MC_TRY(path_of(folder, "chat_template.json", path));
    return !t->usual && mc_path_is_file(path->data) ? load_chat_json(path->data, t) : MICA_OK;
}

mica_status mc_chat_template_load(const char *folder, const char *given, mc_chat_template **out) {
    mc_buffer path = {0};
    *out = NULL;
    mc_chat_template *t = mc_calloc(1, sizeof *t);
    if (!t) return mc_fail_nomem("a chat template");
    mica_status status = load_parts(folder, given, &path, t);
    mc_buffer_deinit(&path);
    if (status == MICA_OK && t->usual) {
        *out = t;
    } else {
        mc_chat_template_close(&t);
    }
    return status;
}

void mc_chat_template_close(mc_chat_template **t) {
    if (!*t) return;
    mc_jinja_close(&(*t)->usual);
    mc_jinja_close(&(*t)->tool_use);
    mc_json_close(&(*t)->config);
    mc_json_close(&(*t)->map);
    mc_buffer_deinit(&(*t)->source);
    mc_free(*t);
    *t = NULL;
}

mc_str mc_chat_template_source(const mc_chat_template *t) {
    return (mc_str){t->source.data ? t->source.data : "", t->source.len};
}

bool mc_chat_template_has_developer(const mc_chat_template *t) {
    return t->developer;
}

/* -- rendering -- */

/* The variables of one rendering, and the memory behind them. */
typedef struct rendering {
    mc_buffer variables; /* of mc_jinja_variable */
    mc_json_doc *messages, *tools, *more, *flags;
} rendering;

static mica_status parse_json(const char *text, const char *name, mc_json_type type,
                              mc_json_doc **doc) {
    MC_TRY(mc_json_parse(text, strlen(text), name, doc));
    if (mc_json_get_type(mc_json_root(*doc)) == type) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: expected a JSON %s", name,
                   type == MC_JSON_ARRAY ? "array" : "object");
}

static mica_status parse_request(const mc_chat_request *q, rendering *g) {
    static const char flags[] = "[false, true]";
    MC_TRY(parse_json(flags, "chat", MC_JSON_ARRAY, &g->flags));
    MC_TRY(parse_json(q->messages, "chat: messages", MC_JSON_ARRAY, &g->messages));
    if (q->tools) MC_TRY(parse_json(q->tools, "chat: tools", MC_JSON_ARRAY, &g->tools));
    if (!q->variables) return MICA_OK;
    return parse_json(q->variables, "chat: template variables", MC_JSON_OBJECT, &g->more);
}

static bool add_variable(rendering *g, const char *name, mc_json json, mc_str text) {
    return MC_BUFFER_PUSH(&g->variables, mc_jinja_variable,
                          ((mc_jinja_variable){mc_str_of(name), json, text}));
}

static mc_json flag(const rendering *g, bool truth) {
    mc_json_iter it = mc_json_begin(mc_json_root(g->flags));
    mc_json_next(&it);
    if (truth) mc_json_next(&it);
    return it.value;
}

/* Adds a variable of the caller, by the name and the words that the template has for it. */
static bool add_given(const mc_chat_template *t, rendering *g, mc_str key, mc_json value) {
    const mc_str source = mc_chat_template_source(t);
    mc_jinja_variable v = {key, value, {NULL, 0}};
    mc_str word;
    bool truth;
    if (mc_str_is(key, "enable_thinking")) {
        const mc_chat_switch has = mc_chat_shape_switch(source);
        if (has.name) v.name = mc_str_of(has.name);
        if (has.words[0] && mc_json_get_bool(value, &truth)) v.text = mc_str_of(has.words[truth]);
    }
    if (mc_str_is(key, "reasoning_effort")) {
        const char *effort = mc_chat_shape_effort(source);
        if (effort) v.name = mc_str_of(effort);
        if (mc_json_get_str(value, &word)) v.text = mc_chat_shape_effort_word(source, word);
    }
    return mc_buffer_add(&g->variables, &v, sizeof v);
}

/* Adds all variables. Later ones replace earlier ones: the caller's variables may replace any
 * except the messages and the tools. */
static bool add_variables(const mc_chat_template *t, const mc_chat_request *q, rendering *g) {
    const mc_json none = {0};
    const mc_str no_text = {0};
    bool ok = add_variable(g, "documents", none, no_text) &&
              add_variable(g, "add_generation_prompt", flag(g, q->add_generation_prompt), no_text);
    if (!t->config && !t->map && q->bos)
        ok = ok && add_variable(g, "bos_token", none, mc_str_of(q->bos));
    for (size_t i = 0; ok && i < SPECIAL_TOKENS; i++)
        if (t->special[i].ptr) ok = add_variable(g, special_tokens[i], none, t->special[i]);
    mc_json_iter it = mc_json_begin(g->more ? mc_json_root(g->more) : none);
    while (ok && mc_json_next(&it))
        ok = add_given(t, g, it.key, it.value);
    const mc_json tools = g->tools ? mc_json_root(g->tools) : none;
    const mc_str source = mc_chat_template_source(t), xml = MC_STR("xml_tools"); /* SmolLM3's */
    if (g->tools && mc_find(source, xml, 0) < source.len)
        ok = ok && add_variable(g, xml.ptr, tools, no_text);
    return ok && add_variable(g, "tools", tools, no_text) &&
           add_variable(g, "messages", mc_json_root(g->messages), no_text);
}

mica_status mc_chat_template_render(const mc_chat_template *t, const mc_chat_request *q,
                                    mc_buffer *out) {
    rendering g = {0};
    mica_status status = parse_request(q, &g);
    if (status == MICA_OK && !add_variables(t, q, &g))
        status = mc_fail_nomem("the variables of a template");
    if (status == MICA_OK) {
        const mc_jinja *jinja = q->tools && t->tool_use ? t->tool_use : t->usual;
        const mc_jinja_options options = {.now = q->now, .cancel = q->cancel};
        status = mc_jinja_render(jinja, MC_BUFFER_AT(&g.variables, mc_jinja_variable),
                                 MC_BUFFER_COUNT(&g.variables, mc_jinja_variable), &options, out);
    }
    mc_buffer_deinit(&g.variables);
    mc_json_close(&g.messages);
    mc_json_close(&g.tools);
    mc_json_close(&g.more);
    mc_json_close(&g.flags);
    return status;
}
