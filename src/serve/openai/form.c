#include "serve/openai/form.h"

#include "serve/common/put.h"
#include "serve/jobs/chat_prompt.h"

#include <stdio.h>
#include <string.h>

/* The names of fields, for failures. */
static const struct {
    const char *thinking, *format, *inner, *schema;
} names[] = {
    [MC_OPENAI_CHAT] = {"reasoning_effort", "response_format", "response_format.json_schema",
                        "response_format.json_schema.schema"},
    [MC_OPENAI_RESPONSES] = {"reasoning.effort", "text.format", "text.format",
                             "text.format.schema"},
};

#define AT(member) offsetof(mc_openai_wish, member)

const mc_field mc_openai_tool_fields[MC_OPENAI_TOOL_FIELDS] = {
    MC_FIELD_AT(JSON, "tool_choice", AT(choice), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_OBJECT,
                .help = "none, auto, required, the function that must be called, or allowed_tools: "
                        "some of the tools, which are then the only ones"),
    MC_FIELD_AT(BOOL, "parallel_tool_calls", AT(parallel), .initial = 1,
                .help = "an answer may have several calls, in formats that have that; false: it "
                        "has the first one alone"),
};

static const mc_field structured[] = {
    MC_FIELD_AT(JSON, "json", AT(json), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_OBJECT,
                .help = "a schema, or its text: as response_format of type json_schema"),
    MC_FIELD_AT(BOOL, "json_object", AT(object), .help = "as response_format of type json_object"),
    MC_FIELD_AT(TEXT, "regex", AT(regex), .help = "as response_format of type regex"),
    MC_FIELD_AT(JSON, "choice", AT(choices), .types = MC_FIELD_IS_ARRAY,
                .help = "texts, up to 256: the answer is one of them"),
    MC_FIELD_AT(TEXT, "grammar", AT(grammar), .help = "as response_format of type grammar"),
    MC_FIELD(REFUSED, "structural_tag", .help = "tools are forced by tool_choice"),
    MC_FIELD(REFUSED, "whitespace_pattern", .help = "white space is any of JSON's"),
    MC_FIELD(ONLY, "disable_any_whitespace", .choices = "false"),
    MC_FIELD(ONLY, "disable_additional_properties", .choices = "false"),
    MC_FIELD(ONLY, "disable_fallback", .choices = "true false",
             .help = "there is no other engine to fall back to"),
};

const mc_field mc_openai_structured_fields[MC_OPENAI_STRUCTURED_FIELDS] = {
    MC_FIELD(OBJECT, "structured_outputs", .fields = structured,
             .count = sizeof structured / sizeof *structured),
};

/* The members that an object may have, words with blanks between them; anything else is refused by
 * name, unless it is null. */
static bool check_members(mc_json object, const char *known, const char *field,
                          mc_failure *failure) {
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        bool found = !mc_json_exists(it.value);
        for (const char *at = known; *at && !found; at += strcspn(at, " "), at += *at == ' ')
            found = mc_str_eq(it.key, (mc_str){at, strcspn(at, " ")});
        if (found) continue;
        char name[96];
        snprintf(name, sizeof name, "%s.%.*s", field, (int)(it.key.len < 40 ? it.key.len : 40),
                 it.key.ptr);
        return mc_failure_set(failure, 400, "unknown_field", name, "there is no field %s", name);
    }
    return true;
}

static mc_str type_of(mc_json value) {
    mc_str type = MC_STR("");
    mc_json_get_str(mc_json_find(value, "type"), &type);
    return type;
}

/* ---- which tool is called ---- */

/* The object of a function in a tool, or in a choice of one. NONE: it is of another type. */
static mc_json function_of(const mc_openai_wish *wish, mc_json tool) {
    if (!mc_str_is(type_of(tool), "function")) return (mc_json){0};
    return wish->shape == MC_OPENAI_CHAT ? mc_json_find(tool, "function") : tool;
}

static bool refuse_choice(const mc_openai_wish *wish, mc_failure *failure) {
    return mc_failure_set(failure, 400, "invalid_value", "tool_choice",
                          "tool_choice: want none, auto, required, %s, or allowed_tools with a "
                          "mode and tools",
                          wish->shape == MC_OPENAI_CHAT
                              ? "{\"type\": \"function\", \"function\": {\"name\": ...}}"
                              : "{\"type\": \"function\", \"name\": ...}");
}

static bool read_word(mc_str word, mc_tool_choice *choice) {
    if (mc_str_is(word, "auto"))
        *choice = MC_TOOLS_AUTO;
    else if (mc_str_is(word, "none"))
        *choice = MC_TOOLS_NONE;
    else if (mc_str_is(word, "required"))
        *choice = MC_TOOLS_REQUIRED;
    else
        return false;
    return true;
}

/* Reads a choice among some of the tools; *allowed receives these. */
static bool read_allowed(const mc_openai_wish *wish, mc_answer_form *form, mc_json *allowed,
                         mc_failure *failure) {
    bool chat = wish->shape == MC_OPENAI_CHAT;
    mc_json inner = chat ? mc_json_find(wish->choice, "allowed_tools") : wish->choice;
    mc_str mode = MC_STR("");
    if (!check_members(wish->choice, chat ? "type allowed_tools" : "type mode tools", "tool_choice",
                       failure) ||
        (chat && !check_members(inner, "mode tools", "tool_choice.allowed_tools", failure)))
        return false;
    *allowed = mc_json_find(inner, "tools");
    mc_json_get_str(mc_json_find(inner, "mode"), &mode);
    if (mc_json_count(*allowed) > 0 && read_word(mode, &form->choice) &&
        form->choice != MC_TOOLS_NONE)
        return true;
    return refuse_choice(wish, failure);
}

/* Reads the choice of a tool: a word, the name of a function, or those that are allowed. */
static bool read_choice(const mc_openai_wish *wish, mc_answer_form *form, mc_json *allowed,
                        mc_failure *failure) {
    bool chat = wish->shape == MC_OPENAI_CHAT;
    mc_str word, name;
    mc_json function = function_of(wish, wish->choice);
    if (!mc_json_exists(wish->choice)) return true;
    if (mc_json_get_str(wish->choice, &word))
        return read_word(word, &form->choice) || refuse_choice(wish, failure);
    if (mc_str_is(type_of(wish->choice), "allowed_tools"))
        return read_allowed(wish, form, allowed, failure);
    if (!mc_json_get_str(mc_json_find(function, "name"), &name) || !name.len ||
        name.len >= MC_TOOL_NAME || memchr(name.ptr, '\0', name.len))
        return refuse_choice(wish, failure);
    memcpy(form->tool, name.ptr, name.len);
    form->choice = MC_TOOLS_REQUIRED;
    return check_members(wish->choice, chat ? "type function" : "type name", "tool_choice",
                         failure) &&
           (!chat || check_members(function, "name", "tool_choice.function", failure));
}

/* ---- tools ---- */

static bool refuse_tool(size_t number, const char *member, const char *what, mc_failure *failure) {
    char name[96];
    snprintf(name, sizeof name, "tools[%zu].%.60s", number, member);
    return mc_failure_set(failure, 400, "unsupported_value", name, "%s: %s", name, what);
}

/* Members of a response's tool that ask for nothing else than what mica does. */
static bool check_tool(size_t number, mc_json tool, mc_failure *failure) {
    char name[32];
    bool flag;
    mc_str caller;
    mc_json async = mc_json_find(tool, "async");
    if (mc_json_exists(async) && (!mc_json_get_bool(async, &flag) || flag))
        return refuse_tool(number, "async", "only false is supported", failure);
    for (mc_json_iter it = mc_json_begin(mc_json_find(tool, "allowed_callers")); mc_json_next(&it);)
        if (!mc_json_get_str(it.value, &caller) || !mc_str_is(caller, "direct"))
            return refuse_tool(number, "allowed_callers", "only direct is supported", failure);
    snprintf(name, sizeof name, "tools[%zu]", number);
    return check_members(tool,
                         "type name description parameters strict defer_loading async "
                         "allowed_callers",
                         name, failure);
}

/* Writes a response's tool as chats have it. */
static void put_flat(mc_put *put, mc_json tool) {
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "type", "function");
    mc_put_open(put, "function", '{');
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        mc_json value = mc_json_find(tool, members[i]);
        if (mc_json_exists(value)) mc_put_value(put, members[i], value);
    }
    mc_put_close(put, '}');
    mc_put_close(put, '}');
}

static mc_str name_of(const mc_openai_wish *wish, mc_json tool) {
    mc_str name = MC_STR("");
    mc_json_get_str(mc_json_find(function_of(wish, tool), "name"), &name);
    return name;
}

/* Whether a list has a function of that name. */
static bool has_name(const mc_openai_wish *wish, mc_json list, mc_str name) {
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);)
        if (name.len && mc_str_eq(name_of(wish, it.value), name)) return true;
    return false;
}

/* Whether a tool is of a kind that is left out: the server would have to run it, or it is no
 * function. What has no type is looked at by those who read functions. */
static bool is_left_out(mc_json tool) {
    mc_str type = type_of(tool);
    return type.len && !mc_str_is(type, "function");
}

/* What is allowed must be among the tools. */
static bool check_allowed(const mc_openai_wish *wish, mc_json allowed, mc_failure *failure) {
    enum { MAX_TOOLS = 512 }; /* each is looked for among all */
    if (mc_json_count(allowed) > MAX_TOOLS ||
        (mc_json_count(allowed) > 0 && mc_json_count(wish->tools) > MAX_TOOLS))
        return mc_failure_set(failure, 400, "invalid_value", "tool_choice",
                              "tool_choice: want %d tools or fewer", MAX_TOOLS);
    for (mc_json_iter it = mc_json_begin(allowed); mc_json_next(&it);) {
        mc_str name = name_of(wish, it.value);
        if (!is_left_out(it.value) && !has_name(wish, wish->tools, name))
            return mc_failure_set(failure, 400, "invalid_value", "tool_choice",
                                  "tool_choice: there is no function \"%.*s\" among the tools",
                                  (int)(name.len < 60 ? name.len : 60), name.ptr);
    }
    return true;
}

/* Writes the tools that may be called. */
static bool put_tools(const mc_openai_wish *wish, mc_json allowed, mc_answer_form *form,
                      mc_failure *failure) {
    bool flat = wish->shape == MC_OPENAI_RESPONSES;
    size_t number = 0, taken = 0;
    if (!check_allowed(wish, allowed, failure)) return false;
    mc_put put = mc_put_into(&form->tools_text);
    mc_put_open(&put, NULL, '[');
    for (mc_json_iter it = mc_json_begin(wish->tools); mc_json_next(&it); number++) {
        if (is_left_out(it.value)) {
            mc_str name = MC_STR("");
            mc_json_get_str(mc_json_find(it.value, "name"), &name);
            mc_answer_form_leave_out(form, type_of(it.value), name);
            continue;
        }
        if (flat && !check_tool(number, it.value, failure)) return false;
        if (mc_json_exists(allowed) && !has_name(wish, allowed, name_of(wish, it.value))) continue;
        taken++;
        if (flat)
            put_flat(&put, it.value);
        else
            mc_put_value(&put, NULL, it.value);
    }
    mc_put_close(&put, ']');
    if (!taken) mc_buffer_clear(&form->tools_text);
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("tools"), NULL);
}

/* ---- the format ---- */

static bool want(mc_failure *failure, const char *code, const char *field, const char *member,
                 const char *what) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", field, member);
    return mc_failure_set(failure, 400, code, name, "%s: want %s", name, what);
}

/* Reads the object that has a schema. */
static bool read_schema(mc_json object, const char *field, mc_answer_form *form,
                        mc_failure *failure) {
    mc_str text;
    bool strict;
    mc_json schema = mc_json_find(object, "schema"), flag = mc_json_find(object, "strict");
    mc_json described = mc_json_find(object, "description");
    if (!mc_json_exists(schema))
        return want(failure, "missing_field", field, "schema", "an object, which is missing");
    if (mc_json_get_type(schema) != MC_JSON_OBJECT)
        return want(failure, "invalid_type", field, "schema", "an object");
    if (!mc_json_get_str(mc_json_find(object, "name"), &text) || !text.len || text.len > 64)
        return want(failure, "invalid_type", field, "name", "a string of up to 64 bytes");
    if (mc_json_exists(flag) && !mc_json_get_bool(flag, &strict))
        return want(failure, "invalid_type", field, "strict", "a boolean");
    if (mc_json_exists(described) && !mc_json_get_str(described, &text))
        return want(failure, "invalid_type", field, "description", "a string");
    form->schema = schema;
    return true;
}

/* ---- regular expressions and grammars ---- */

static bool keep_source(mc_answer_form *form, mica_constraint_kind kind, mc_str text,
                        mc_failure *failure) {
    form->kind = kind;
    return mc_buffer_add(&form->source, text.ptr, text.len) ||
           mc_failure_of(failure, mc_fail_nomem("a grammar"), NULL);
}

/* Reads a regular expression, as "regex" or, as xgrammar calls it, "pattern". */
static bool read_regex(mc_json format, const char *field, mc_answer_form *form,
                       mc_failure *failure) {
    mc_str text;
    mc_json regex = mc_json_find(format, "regex"), pattern = mc_json_find(format, "pattern");
    if (!check_members(format, "type regex pattern", field, failure)) return false;
    if (mc_json_exists(regex) == mc_json_exists(pattern) ||
        !mc_json_get_str(mc_json_exists(regex) ? regex : pattern, &text))
        return want(failure, "missing_field", field, "regex", "a string, here or in pattern");
    return keep_source(form, MICA_CONSTRAINT_REGEX, text, failure);
}

static bool find_syntax(mc_str name, mica_constraint_kind *kind) {
    static const struct {
        const char *name;
        mica_constraint_kind kind;
    } known[] = {{"lark", MICA_CONSTRAINT_LARK},
                 {"gbnf", MICA_CONSTRAINT_GBNF},
                 {"ebnf", MICA_CONSTRAINT_GBNF},
                 {"regex", MICA_CONSTRAINT_REGEX}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mc_str_is(name, known[i].name)) return *kind = known[i].kind, true;
    return false;
}

/* Reads {"type": "grammar", "grammar": text}; with "definition" and "syntax", here or within
 * "grammar", as OpenAI's custom tools have them; or {"type": "lark" | "gbnf" | "ebnf", "grammar":
 * text}, the text also by the type's name. */
static bool read_grammar(mc_json format, const char *field, mc_answer_form *form,
                         mc_failure *failure) {
    mc_str type = type_of(format), text, name;
    char members[64];
    mica_constraint_kind kind = MICA_CONSTRAINT_GRAMMAR;
    bool known = find_syntax(type, &kind);
    mc_json inner = mc_json_find(format, "grammar");
    snprintf(members, sizeof members, "type grammar definition %.*s",
             known ? (int)type.len : (int)strlen("syntax"), known ? type.ptr : "syntax");
    if (!check_members(format, members, field, failure)) return false;
    if (!known && mc_json_get_type(inner) == MC_JSON_OBJECT) {
        if (!check_members(format, "type grammar", field, failure) ||
            !check_members(inner, "syntax definition", field, failure))
            return false;
        format = inner;
        inner = (mc_json){0};
    }
    for (mc_json_iter it = mc_json_begin(format); known && mc_json_next(&it);)
        if (mc_str_eq(it.key, type) && !mc_json_exists(inner)) inner = it.value;
    mc_json definition = mc_json_find(format, "definition");
    if (mc_json_exists(inner) == mc_json_exists(definition) ||
        !mc_json_get_str(mc_json_exists(inner) ? inner : definition, &text))
        return want(failure, "missing_field", field, "grammar", "a string");
    mc_json syntax = mc_json_find(format, "syntax");
    if (!known && mc_json_exists(syntax) &&
        (!mc_json_get_str(syntax, &name) || !find_syntax(name, &kind)))
        return want(failure, "unsupported_value", field, "syntax", "lark, gbnf or regex");
    return keep_source(form, kind, text, failure);
}

static bool read_format(const mc_openai_wish *wish, mc_answer_form *form, mc_failure *failure) {
    static const char members[] = "name description schema strict";
    const char *field = names[wish->shape].format, *inner = names[wish->shape].inner;
    bool chat = wish->shape == MC_OPENAI_CHAT;
    mc_json format = wish->format;
    if (!mc_json_exists(format)) return true;
    mc_str type = type_of(format);
    if (!mc_json_exists(mc_json_find(format, "type")))
        return want(failure, "missing_field", field, "type", "a string, which is missing");
    if (mc_str_is(type, "json_schema")) {
        mc_json object = chat ? mc_json_find(format, "json_schema") : format;
        form->fields[2] = names[wish->shape].schema;
        return check_members(format,
                             chat ? "type json_schema" : "type name description schema strict",
                             field, failure) &&
               (!chat || check_members(object, members, inner, failure)) &&
               read_schema(object, inner, form, failure);
    }
    mica_constraint_kind kind;
    if (mc_str_is(type, "regex")) return read_regex(format, field, form, failure);
    if (mc_str_is(type, "grammar") || find_syntax(type, &kind))
        return read_grammar(format, field, form, failure);
    bool object = mc_str_is(type, "json_object");
    if (object) form->kind = MICA_CONSTRAINT_JSON_OBJECT;
    if (!object && !mc_str_is(type, "text"))
        return want(failure, "unsupported_value", field, "type",
                    "text, json_object, json_schema, regex, grammar, lark or gbnf");
    return check_members(format, "type", field, failure);
}

/* ---- vLLM's structured_outputs ---- */

/* Reads the schema, which may be a text. */
static bool read_json(mc_json json, mc_answer_form *form, mc_failure *failure) {
    mc_str text;
    form->schema = json;
    if (!mc_json_get_str(json, &text)) return true;
    mica_status status = mc_json_parse(text.ptr, text.len, "the schema", &form->parsed);
    if (status != MICA_OK) return mc_failure_of(failure, status, "structured_outputs.json");
    form->schema = mc_json_root(form->parsed);
    return true;
}

static bool read_structured(const mc_openai_wish *wish, mc_answer_form *form, mc_failure *failure) {
    int given = mc_json_exists(wish->json) + mc_json_exists(wish->choices) + wish->object +
                (wish->regex.ptr != NULL) + (wish->grammar.ptr != NULL);
    if (!given) return true;
    if (given > 1 || mc_json_exists(wish->format))
        return mc_failure_set(failure, 400, "invalid_value", "structured_outputs",
                              "structured_outputs: want one of json, json_object, regex, "
                              "choice and grammar, and no response_format");
    form->fields[2] = "structured_outputs";
    if (mc_json_exists(wish->json)) return read_json(wish->json, form, failure);
    if (wish->grammar.ptr)
        return keep_source(form, MICA_CONSTRAINT_GRAMMAR, wish->grammar, failure);
    if (wish->regex.ptr) return keep_source(form, MICA_CONSTRAINT_REGEX, wish->regex, failure);
    form->kind = wish->object ? MICA_CONSTRAINT_JSON_OBJECT : MICA_CONSTRAINT_CHOICE;
    if (wish->object) return true;
    mc_put put = mc_put_into(&form->source);
    form->fields[2] = "structured_outputs.choice";
    mc_put_value(&put, NULL, wish->choices);
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("choices"), NULL);
}

bool mc_openai_form_read(const mc_openai_wish *wish, mc_answer_form *form, mc_failure *failure) {
    mc_json allowed = {0};
    form->single = !wish->parallel;
    form->fields[0] = "tools";
    form->fields[1] = names[wish->shape].thinking;
    form->fields[2] = names[wish->shape].format;
    if (wish->effort == MC_EFFORT_NONE) form->thinking = MC_PROMPT_THINKING_OFF;
    form->limited = wish->budget >= 0;
    form->budget = wish->budget;
    form->fields[3] = wish->budget_field;
    return read_choice(wish, form, &allowed, failure) && put_tools(wish, allowed, form, failure) &&
           read_format(wish, form, failure) && read_structured(wish, form, failure);
}
