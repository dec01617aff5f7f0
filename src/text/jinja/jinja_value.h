/* Values of templates, with Python's semantics, and the run that owns them.
 *
 * A value is small and copied. It points into the arena of its run, into that of its template, or
 * into a JSON document. Only namespaces ever change.
 *
 * Errors are sticky: the first one stays in run->status, and functions go on with harmless values.
 * Loops check the status; an expression need not check its operands. */
#ifndef TEXT_JINJA_JINJA_VALUE_H
#define TEXT_JINJA_JINJA_VALUE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/jinja/jinja.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mc_jkind {
    MC_J_ABSENT, /* an argument that was not given; templates never see it */
    MC_J_UNDEFINED,
    MC_J_NONE,
    MC_J_BOOL,
    MC_J_INT,
    MC_J_FLOAT,
    MC_J_STR,
    MC_J_LIST,
    MC_J_TUPLE,
    MC_J_ITERATOR, /* a list that can be iterated once */
    MC_J_DICT,
    MC_J_NAMESPACE,
    MC_J_LOOP,
    MC_J_MACRO,
    MC_J_FUNCTION /* a builtin; a method if it has a self */
} mc_jkind;

/* Why a value is undefined, for the error when it is used. */
typedef enum mc_jwhy {
    MC_J_NO_VARIABLE,  /* text is its name */
    MC_J_NO_ATTRIBUTE, /* text is its name */
    MC_J_NO_ELEMENT,   /* text is repr() of the index */
    MC_J_HINT          /* text is the whole message */
} mc_jwhy;

typedef struct mc_jlist mc_jlist;
typedef struct mc_jdict mc_jdict;
typedef struct mc_jloop mc_jloop;
typedef struct mc_jmacro mc_jmacro;
typedef struct mc_jbuiltin mc_jbuiltin;

typedef struct mc_jvalue {
    uint8_t kind;  /* mc_jkind */
    uint8_t why;   /* UNDEFINED: mc_jwhy; STR: 1 if it is HTML (`safe`), what is added is escaped */
    uint8_t owner; /* UNDEFINED: the kind that lacks the attribute or element */
    union {
        bool truth;
        int64_t integer;
        double real;
        mc_str text;    /* STR: valid UTF-8; UNDEFINED: see mc_jwhy */
        mc_jlist *list; /* LIST, TUPLE, ITERATOR */
        mc_jdict *dict; /* DICT, NAMESPACE */
        mc_jloop *loop;
        const mc_jmacro *macro;
        struct {
            const mc_jbuiltin *builtin;
            const struct mc_jvalue *self; /* or NULL */
        } function;
    };
} mc_jvalue;

struct mc_jlist {
    mc_jvalue *items;
    size_t count, cap;
};

typedef struct mc_jpair {
    mc_jvalue key, value;
} mc_jpair;

struct mc_jdict { /* in order of insertion */
    mc_jpair *pairs;
    size_t count, cap;
};

typedef struct mc_jscope { /* names of a template, an iteration of a loop, a macro call ... */
    struct mc_jscope *outer;
    mc_jdict names;
} mc_jscope;

typedef struct mc_jrun {
    mica_status status; /* of the first error */
    const char *name;   /* of the template */
    uint32_t line;      /* of the current node */
    const mc_jinja_options *options;
    mc_arena arena;
    mc_buffer *out;
    size_t out_start; /* out->len when the run began */
    mc_jscope *scope; /* the innermost */
    unsigned depth;
    uint64_t steps, pause; /* steps so far; the step at which mc_jpause is called next */
    uint64_t max_steps;
    size_t given; /* bytes of the variables' texts */
    size_t bytes, max_bytes, max_output;
    mc_jlist no_list; /* stands for a list or dict without memory */
    mc_jdict no_dict;
} mc_jrun;

/* -- the run -- */

/* Keeps an error if it is the first, and puts the template's name and the line before its text. */
void mc_jfail(mc_jrun *r, mica_status status, const char *fmt, ...) MC_PRINTF(3, 4);
#define mc_jerror(r, ...) mc_jfail((r), MICA_EINVAL, __VA_ARGS__)

/* Sets the run's limits of steps, memory and output. Called when its variables are set. */
void mc_jbound(mc_jrun *r);

/* All work is charged in steps of about 20 ns, also work that does not allocate. A loop must charge
 * for its length, unless the template itself is as long. mc_jpause, which is called every so many
 * steps, fails the run if it exceeds a limit or is cancelled; nothing else checks that. */
void mc_jpause(mc_jrun *r);
static inline void mc_jcharge(mc_jrun *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps >= r->pause) mc_jpause(r);
}
/* Charges for bytes that are copied or compared as a block. */
static inline void mc_jcharge_copy(mc_jrun *r, size_t bytes) {
    mc_jcharge(r, 1 + bytes / 64);
}
/* Charges for bytes that are read one by one. */
static inline void mc_jcharge_scan(mc_jrun *r, size_t bytes) {
    mc_jcharge(r, 1 + bytes / 4);
}

/* Enters a deeper level; false: too deep, and nothing to leave. */
bool mc_jenter(mc_jrun *r);
void mc_jleave(mc_jrun *r);
void *mc_jalloc(mc_jrun *r, size_t bytes); /* zeroed; NULL: the run has failed */

/* Text is written at the end of the output, from where it can be taken as a string:
 *     size_t mark = mc_jmark(r); mc_jput(r, ...); mc_jvalue text = mc_jtake(r, mark); */
size_t mc_jmark(const mc_jrun *r);
void mc_jput(mc_jrun *r, mc_str text);
void mc_jput_text(mc_jrun *r, const char *text);
void mc_jput_char(mc_jrun *r, uint32_t codepoint);
void mc_jputf(mc_jrun *r, const char *fmt, ...) MC_PRINTF(2, 3);
mc_jvalue mc_jtake(mc_jrun *r, size_t mark);

/* -- making values -- */

static inline mc_jvalue mc_jnone(void) {
    return (mc_jvalue){.kind = MC_J_NONE};
}
static inline mc_jvalue mc_jbool(bool truth) {
    return (mc_jvalue){.kind = MC_J_BOOL, .truth = truth};
}
static inline mc_jvalue mc_jint(int64_t integer) {
    return (mc_jvalue){.kind = MC_J_INT, .integer = integer};
}
static inline mc_jvalue mc_jfloat(double real) {
    return (mc_jvalue){.kind = MC_J_FLOAT, .real = real};
}
static inline mc_jvalue mc_jstr(mc_str text) { /* borrowed */
    return (mc_jvalue){.kind = MC_J_STR, .text = text};
}
static inline mc_jvalue mc_jlist_value(mc_jkind kind, mc_jlist *list) {
    return (mc_jvalue){.kind = (uint8_t)kind, .list = list};
}
static inline mc_jvalue mc_jdict_value(mc_jkind kind, mc_jdict *dict) {
    return (mc_jvalue){.kind = (uint8_t)kind, .dict = dict};
}
mc_jvalue mc_jundefined(mc_jwhy why, mc_jkind owner, mc_str text);
mc_jvalue mc_jjson(mc_jrun *r, mc_json v); /* NONE gives None */

mc_jlist *mc_jlist_new(mc_jrun *r); /* never NULL */
void mc_jlist_push(mc_jrun *r, mc_jlist *list, mc_jvalue v);
mc_jvalue mc_jpair_value(mc_jrun *r, mc_jvalue a, mc_jvalue b); /* a tuple of two */
mc_jdict *mc_jdict_new(mc_jrun *r);                             /* never NULL */
void mc_jdict_put(mc_jrun *r, mc_jdict *dict, mc_jvalue key, mc_jvalue v);
mc_jvalue *mc_jdict_find(mc_jrun *r, const mc_jdict *dict, mc_jvalue key); /* or NULL */
mc_jvalue *mc_jdict_find_str(mc_jrun *r, const mc_jdict *dict, mc_str key);

/* -- reading values -- */

static inline bool mc_jis(mc_jvalue v, mc_jkind kind) {
    return v.kind == kind;
}
static inline bool mc_jis_str(mc_jvalue v, const char *text) {
    return v.kind == MC_J_STR && mc_str_is(v.text, text);
}
bool mc_jis_list(mc_jvalue v);              /* LIST or TUPLE */
bool mc_jis_number(mc_jvalue v);            /* BOOL, INT or FLOAT */
bool mc_jis_iterable(mc_jvalue v);          /* true for UNDEFINED, which is empty */
double mc_jreal(mc_jvalue number);          /* of a number */
int64_t mc_jinteger(mc_jvalue bool_or_int); /* of a BOOL or INT */
bool mc_jtruth(mc_jvalue v);
const char *mc_jtype(mc_jkind kind); /* Python's name of the type */
bool mc_jequal(mc_jrun *r, mc_jvalue a, mc_jvalue b);
int mc_jcompare(mc_jrun *r, mc_jvalue a, mc_jvalue b); /* < 0, 0, > 0; fails without an order */
void mc_jfail_undefined(mc_jrun *r, mc_jvalue v);      /* an error that says why v is undefined */

#endif
