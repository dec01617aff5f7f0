/* A group's blocks of a session on a pool: the state that state_blocks.c has functions for. */
#ifndef SESSION_STATE_BLOCKS_H
#define SESSION_STATE_BLOCKS_H

#include "session/pool.h"

typedef struct mc_blocks {
    mc_state base;
    mc_kv_table table; /* the blocks of its entries, in their order */
} mc_blocks;

#endif
