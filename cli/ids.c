#define _POSIX_C_SOURCE 200809L
#include "ids.h"

#include "report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Finds the slot of id, or the free slot for it. Requires ids->room > 0 and a free slot. source:
 * FNV-1a */
static size_t slot_of(const cli_ids *ids, const char *id) {
    uint64_t hash = 14695981039346656037u;
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    size_t at = (size_t)hash & (ids->room - 1);
    while (ids->slots[at] && strcmp(ids->slots[at], id) != 0)
        at = (at + 1) & (ids->room - 1);
    return at;
}

bool cli_ids_has(const cli_ids *ids, const char *id) {
    return ids->room > 0 && ids->slots[slot_of(ids, id)];
}

static bool grow(cli_ids *ids) {
    cli_ids grown = {.count = ids->count, .room = ids->room ? ids->room * 2 : 64};
    grown.slots = calloc(grown.room, sizeof *grown.slots);
    if (!grown.slots) return false;
    for (size_t i = 0; i < ids->room; i++)
        if (ids->slots[i]) grown.slots[slot_of(&grown, ids->slots[i])] = ids->slots[i];
    free(ids->slots);
    *ids = grown;
    return true;
}

bool cli_ids_add(cli_ids *ids, const char *id) {
    bool added = ids->count * 2 < ids->room || grow(ids);
    if (added) {
        size_t at = slot_of(ids, id);
        if (ids->slots[at]) return true;
        ids->slots[at] = strdup(id);
        added = ids->slots[at] != NULL;
    }
    if (added)
        ids->count++;
    else
        cli_fail("out of memory");
    return added;
}

void cli_ids_deinit(cli_ids *ids) {
    for (size_t i = 0; i < ids->room; i++)
        free(ids->slots[i]);
    free(ids->slots);
    *ids = (cli_ids){0};
}
