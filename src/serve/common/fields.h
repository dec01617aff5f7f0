/* The fields of a request's JSON body, as tables.
 *
 * A table says each field that an API defines: its name, its type and range, and what becomes of
 * it. Reading a body by its table sets the members of a struct, and refuses with a 400 that names
 * the field: a field that the table lacks, a value of the wrong type or out of range, and what mica
 * does not do. So no field is ignored silently: docs/serve.md is printed from the same tables, and
 * says of those without effect why they have none.
 *
 * null stands for a field that is not given, unless it is required. Threads: any. */
#ifndef SERVE_COMMON_FIELDS_H
#define SERVE_COMMON_FIELDS_H

#include "base/json.h"
#include "serve/common/failure.h"

typedef enum mc_field_kind {
    MC_FIELD_BOOL,    /* bool */
    MC_FIELD_INT,     /* int64_t in [min, max] */
    MC_FIELD_REAL,    /* double in [min, max] */
    MC_FIELD_SEED,    /* mc_seed: any integer of 64 bits */
    MC_FIELD_TEXT,    /* mc_str, which lives with the document; ptr NULL: not given */
    MC_FIELD_CHOICE,  /* int: the index of one of `choices`, words with blanks between them */
    MC_FIELD_JSON,    /* mc_json of one of the `types`; the endpoint reads it */
    MC_FIELD_OBJECT,  /* an object with a table of its own, into the same struct */
    MC_FIELD_ONLY,    /* only one of `choices`, JSON texts with blanks between them, which ask for
                         nothing else than what mica does; other values are refused */
    MC_FIELD_REFUSED, /* refused, whatever its value; `help` says why */
    MC_FIELD_NOTED    /* any value, without effect: no answer depends on it; `help` says why */
} mc_field_kind;

/* The types that a field of MC_FIELD_JSON may have. */
enum {
    MC_FIELD_IS_TEXT = 1,
    MC_FIELD_IS_ARRAY = 2,
    MC_FIELD_IS_OBJECT = 4,
    MC_FIELD_IS_NUMBER = 8,
    MC_FIELD_IS_BOOL = 16
};

typedef struct mc_seed {
    bool given;
    uint64_t value; /* one below 0 is its two's complement */
} mc_seed;

typedef struct mc_field {
    const char *name;
    mc_field_kind kind;
    unsigned types;                /* of MC_FIELD_JSON */
    bool required;                 /* it must be given, and not be null */
    double min, max;               /* of numbers */
    double initial;                /* of numbers, bools and choices: what stands for the field if
                                       it is not given */
    const char *choices;           /* of MC_FIELD_CHOICE and MC_FIELD_ONLY */
    const char *help;              /* a line of docs/serve.md */
    size_t offset;                 /* of the member in the struct */
    const struct mc_field *fields; /* [count] of MC_FIELD_OBJECT */
    size_t count;
} mc_field;

/* Rows of a table: the field NAME, of MC_FIELD_<KIND>, and its other members by name; the same for
 * the member at OFFSET. */
#define MC_FIELD(KIND, NAME, ...) \
    { .name = NAME, .kind = MC_FIELD_##KIND, __VA_ARGS__ }
#define MC_FIELD_AT(KIND, NAME, OFFSET, ...) MC_FIELD(KIND, NAME, .offset = OFFSET, __VA_ARGS__)

/* Fields that several endpoints share, in a struct that each of them embeds. */
typedef struct mc_field_table {
    const mc_field *fields; /* [count]; NULL: the end of a list of tables */
    size_t count;
    size_t offset; /* of the struct that the table describes in the endpoint's */
} mc_field_table;

enum { MC_FIELD_TABLES = 5 }; /* of an endpoint */

/* Reads a body by its tables, each field once.
 *
 *  tables   [MC_FIELD_TABLES]
 *  body     the document's root, which must be an object.
 *  values   the endpoint's struct; every member that a table names is set.
 *  returns  false: *failure says why */
bool mc_fields_read(const mc_field_table *tables, mc_json body, void *values, mc_failure *failure);

/* One of `choices`, by its index. */
mc_str mc_field_word(const char *choices, int index);

/* Writes the name of a field's type for people, such as "integer, 1 to 8". */
void mc_field_type(const mc_field *field, char *out, size_t bytes);

#endif
