#include "mutate.h"

#include <stdlib.h>
#include <string.h>

/* Expressions that a hostile chat template may contain. */
static const char *const pieces[] = {
    "{% for i in range(1000000000) %}x{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{{ 'ab' * 1000000000 }}",
    "{{ (messages * 100000) | length }}",
    "{{ 'a' * 10 ** 9 }}{{ 10 ** 10 ** 10 }}{{ 9223372036854775807 + 1 }}{{ 1 // 0 }}{{ 1 % 0 }}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor "
    "%}{{ ns.x }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor "
    "%}{{ ns.x }}",
    "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x, ns.x] %}{% "
    "endfor %}{{ ns.x | tojson }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ ('a' * 100000).replace('a', 'b' * 1000) }}",
    "{{ ('a' * 100000).replace('', 'b' * 1000) | length }}",
    "{{ ('a,' * 1000000).split(',') | join('-') | length }}",
    "{% for i in range(100000) %}{% if ('x ' * 50000).split() %}{% endif %}{% endfor %}",
    "{% for i in range(100000) %}{% if ('x ' * 50000).rsplit(None, 3) %}{% endif %}{% endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a.startswith(a) %}{% endif %}{% "
    "endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a.rfind('y') %}{% endif %}{% "
    "endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a.strip('yz') %}{% endif %}{% "
    "endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a.find('xxxxxy') %}{% endif %}{% "
    "endfor %}",
    "{% set a = ' ' * 100000 %}{% for i in range(100000) %}{% if a | trim %}{% endif %}{% endfor "
    "%}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a.count('xy') %}{% endif %}{% "
    "endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if 'xy' in a or a == a ~ 'y' %}{% "
    "endif %}{% endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a | upper | lower | title | "
    "capitalize %}{% endif %}{% endfor %}",
    "{% set a = 'x' * 100000 %}{% for i in range(100000) %}{% if a[::-1] or a | length %}{% endif "
    "%}{% endfor %}",
    "{% set a = range(100000) | list %}{% for i in range(100000) %}{% if a == a or 'x' in a %}{% "
    "endif %}{% endfor %}",
    "{% set a = range(1000) | list %}{% for i in range(100000) %}{% if a | sort | reverse | list "
    "%}{% endif %}{% endfor %}",
    "{% set a = range(100000) | list %}{% for i in range(100000) %}{% if a | map('string') | join "
    "%}{% endif %}{% endfor %}",
    "{% set a = ('x',) * 100000 %}{% for i in range(100000) %}{% if 'y'.startswith(a) %}{% endif "
    "%}{% endfor %}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%.1000000000f' % 1.5 }}{{ '%s %s' % (1,) }}{{ '{:>999999999}'.format(1) }}",
    "{{ 'x' | center(1000000000) }}{{ 'x'.ljust(1000000000) }}",
    "{{ messages | tojson(indent=1000000000) }}",
    "{{ 'a b c' | indent(1000000000) }}{{ 'a b' | wordwrap(0) }}",
    "{{ range(100000000) | list | length }}{{ range(0, 10, 0) }}",
    "{{ strftime_now('%9999Y' * 10000) }}",
    "{{ undefined.x.y }}{{ messages[99].content }}{{ messages[-99] }}{{ messages['a'] }}",
    "{{ raise_exception('no' * 100000000) }}",
    "{{ raise_exception() }}",
    "{{ loop.index }}{{ self }}{{ caller() }}{{ super() }}{{ cycler(1) }}{{ joiner() }}",
    "{% raw %}{{ {% endraw %}{# {{ #}",
    "{% generation %}{% endgeneration %}",
    "{% call(x) m() %}{% endcall %}{% filter upper %}a{% endfilter %}{% block a %}{% endblock %}",
    "{% include 'a' %}{% import 'a' as b %}{% extends 'a' %}",
    "{{ messages.__class__.__mro__ }}{{ ''.__class__ }}",
    "{% set messages = messages + messages %}",
    "{% for a, b in messages[0].items() recursive %}{{ loop(b) }}{% endfor %}",
    "{% if %}",
    "{% endif %}",
    "{% else %}",
    "{{",
    "}}",
    "{%-",
    "-%}",
    "{#",
    "'",
    "\\",
    "|",
    "(",
    "\xff",
};

static const char *const words[] = {
    "messages",
    "message",
    "content",
    "role",
    "loop.index0",
    "none",
    "true",
    "1000000000",
    "-1",
    "0",
    "''",
    "[]",
    "{}",
    "not",
    "and",
    "in",
    "is",
    "is not",
    "+",
    "~",
    "*",
    "**",
    "//",
    "%",
    "==",
    "<",
    "|",
    ".",
    "(",
    ")",
    "[",
    "]",
    ",",
    ":",
    "=",
    "if",
    "else",
    "for",
    "set",
    "macro",
    "trim",
    "tojson",
    "length",
    "first",
    "last",
    "items()",
    "split()",
    "upper",
    "safe",
    "default('x')",
    "selectattr('role')",
    "map",
    "join",
};

/* Finds a run of word characters, a run of blanks, or another byte. */
static int class_of(char ch) {
    if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9')) return 1;
    return ch == '_' ? 1 : ch == ' ' || ch == '\n' ? 2 : 3;
}

static void find_word(chance *c, const mc_buffer *file, size_t *begin, size_t *end) {
    size_t at = chance_below(c, file->len);
    int kind = class_of(file->data[at]);
    *begin = at;
    *end = at + 1;
    while (kind != 3 && *begin > 0 && class_of(file->data[*begin - 1]) == kind)
        --*begin;
    while (kind != 3 && *end < file->len && class_of(file->data[*end]) == kind)
        ++*end;
}

static void put_word(chance *c, mc_buffer *file) {
    size_t begin, end;
    const char *word = CHANCE_PICK(c, words);
    find_word(c, file, &begin, &end);
    mutate_splice(file, begin, end, word, strlen(word));
}

static void drop_word(chance *c, mc_buffer *file) {
    size_t begin, end;
    find_word(c, file, &begin, &end);
    mutate_splice(file, begin, end, NULL, 0);
}

static void copy_word(chance *c, mc_buffer *file) {
    size_t begin, end, to, to_end;
    find_word(c, file, &begin, &end);
    find_word(c, file, &to, &to_end);
    char *word = malloc(end - begin);
    mutate_must(word != NULL);
    memcpy(word, file->data + begin, end - begin);
    mutate_splice(file, to, to_end, word, end - begin);
    free(word);
}

/* Usually inserts between two pieces of the template, where the text is parsed. */
static void add_piece(chance *c, mc_buffer *file) {
    const char *piece = CHANCE_PICK(c, pieces);
    size_t at = chance_below(c, file->len + 1), probe = at;
    while (!chance_one_in(c, 1024) && probe < file->len && probe > 1 &&
           (file->data[probe - 1] != '}' ||
            (file->data[probe - 2] != '%' && file->data[probe - 2] != '}')))
        probe++;
    if (probe >= file->len) probe = chance_one_in(c, 2) ? 0 : at;
    mutate_splice(file, probe, probe, piece, strlen(piece));
}

/* Repeats an opening bracket or tag, for code that parses by recursion. */
static void nest_piece(chance *c, mc_buffer *file) {
    static const char *const openings[] = {
        "{{ (",       "{{ [",
        "{{ -",       "{{ not ",
        "{% if a %}", "{% for a in b %}",
        "{{ {'a':",   "{{ a(",
        "{{ a.b",     "{{ a if b else ",
        "{{ a|",      "{{ a + ",
        "{{ a[",      "{% macro m() %}",
    };
    const char *opening = CHANCE_PICK(c, openings), *inner = opening;
    mc_buffer deep = {0};
    for (size_t n = 1 + chance_size(c); n > 0; n--) {
        mutate_must(mc_buffer_add_text(&deep, inner));
        if (strncmp(opening, "{{ ", 3) == 0) inner = opening + 3;
    }
    mutate_splice(file, 0, 0, deep.data, deep.len);
    mc_buffer_deinit(&deep);
}

void mutate_template(chance *c, mc_buffer *file) {
    static mutation *const ways[] = {put_word,  put_word,  drop_word,  copy_word,
                                     add_piece, add_piece, nest_piece, mutate_bytes};
    if (file->len == 0) return;
    CHANCE_PICK(c, ways)(c, file);
}
