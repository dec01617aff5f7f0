/* The programs of passes, kept to be run again. Those used last stay.
 *
 * Threads: one at a time. */
#ifndef SESSION_PROGRAMS_H
#define SESSION_PROGRAMS_H

#include "model/lm.h"

#include <mica/program.h>

/* What a pass computes. The program of one is that of all with the same key. */
typedef struct mc_pass_key {
    size_t rows;
    int64_t n;      /* tokens of a row */
    uint64_t shape; /* of the states' arrays */
    mc_wanted wanted;
    bool best, launched; /* of mc_session_wish: best, and whether it has a fence */
    bool largest;        /* mc_largest_record, and the logits */
    bool both;           /* the best and the logits */
    bool ends;           /* rows of different lengths */
} mc_pass_key;

typedef struct mc_pass_program {
    mica_program *program; /* NULL: none */
    mc_pass_key key;
} mc_pass_program;

/* Brings the program with a key to the front of a list [n] and returns true; or frees the place at
 * the front, which gets the key and no program. */
bool mc_pass_find(mc_pass_program *programs, size_t n, const mc_pass_key *key);

void mc_pass_close_all(mc_pass_program *programs, size_t n);

#endif
