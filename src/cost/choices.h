/* What trials of mica_pick_device found, kept in a file over processes. */
#ifndef COST_CHOICES_H
#define COST_CHOICES_H

#include <mica/program.h>

#include <stdbool.h>

#include "base/status.h"

/* Which choice it is: of what program, between which devices. */
typedef struct mc_choice {
    char key[136];
} mc_choice;

/* Devices are told apart by all that calibrations are kept for, and by their rates: a choice holds
 * until one is measured anew. errors  MICA_ENOMEM */
mica_status mc_choice_key(const mica_program *program, mica_device *first, mica_device *second,
                          mc_choice *choice);

/* Whether it was made; *other: the second device was taken. */
bool mc_choice_find(const mc_choice *choice, bool *other);

/* Keeps it, if that can be; the oldest are dropped. */
void mc_choice_keep(const mc_choice *choice, bool other);

#endif
