#include "session/programs.h"

#include <string.h>

static bool same_key(const mc_pass_key *a, const mc_pass_key *b) {
    return a->rows == b->rows && a->n == b->n && a->shape == b->shape && a->wanted == b->wanted &&
           a->best == b->best && a->both == b->both && a->largest == b->largest &&
           a->launched == b->launched && a->ends == b->ends;
}

/* Moves a program to the front, and those before it one place back. */
static void bring_forward(mc_pass_program *programs, size_t i) {
    mc_pass_program first = programs[i];
    memmove(&programs[1], &programs[0], i * sizeof first);
    programs[0] = first;
}

bool mc_pass_find(mc_pass_program *programs, size_t n, const mc_pass_key *key) {
    for (size_t i = 0; i < n; i++) {
        if (!programs[i].program || !same_key(&programs[i].key, key)) continue;
        bring_forward(programs, i);
        return true;
    }
    mica_program_close(&programs[n - 1].program);
    programs[n - 1].key = *key;
    bring_forward(programs, n - 1);
    return false;
}

void mc_pass_close_all(mc_pass_program *programs, size_t n) {
    for (size_t i = 0; i < n; i++)
        mica_program_close(&programs[i].program);
}
