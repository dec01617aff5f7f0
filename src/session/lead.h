/* A schedule over ranks: rank 0 runs it, and tells the others what it does with sessions, which
 * these repeat (schedule/follow.h).
 *
 * Rank 0 decides: who gets a row, what a prompt begins with, which tokens were drawn. Functions of
 * sessions and batches that change caches write what they are called with into a plan, and what
 * came of it. Passes are where ranks meet: the first pass behind anything that was written sends
 * the plan, so a step costs one broadcast, of about 16 bytes an answer. Caches of all ranks have
 * the same tables, and take the same blocks.
 *
 * A plan is a list of ops: the op, its numbers, and then its result, all as varints (7 bits a byte,
 * the lowest first). Rank 0 may send an op before it has its result.
 *
 * Several models share a team of ranks. Who sends has the team's turn, first come, first served,
 * and keeps it until mc_lead_rest: collectives of two models never mix.
 *
 * A rank that is gone, a pass that failed on rank 0 or results that differ break the team: nothing
 * is sent any more, and all fails with the first failure's text.
 *
 * All functions take a NULL lead, of a model that is not over ranks, and do nothing.
 *
 * Threads: a team: any; a lead: one at a time. */
#ifndef SESSION_LEAD_H
#define SESSION_LEAD_H

#include "base/buffer.h"
#include "base/status.h"

#include <mica/group.h>

typedef struct mc_team mc_team;
typedef struct mc_lead mc_lead;

/* What rank 0 says. Numbers are those of mc_lead_say; lists are behind them, with their length. */
typedef enum mc_lead_op {
    MC_LEAD_OPEN_MODEL,     /* text: its name */
    MC_LEAD_CLOSE_MODEL,    /* */
    MC_LEAD_OPEN_SCHEDULE,  /* rows, bytes of caches (0: the default), lanes */
    MC_LEAD_OPEN_LANE,      /* of the model that has a schedule */
    MC_LEAD_CLOSE_SCHEDULE, /* */
    MC_LEAD_END,            /* of the team */
    MC_LEAD_OPEN,           /* session, chunk */
    MC_LEAD_CLOSE,          /* session */
    MC_LEAD_FORK,           /* session, the new one */
    MC_LEAD_RESET,          /* session */
    MC_LEAD_SWAP_OUT,       /* session */
    MC_LEAD_SALT,           /* session; text */
    MC_LEAD_MARK,           /* session, position */
    MC_LEAD_REUSE,          /* session, start, hash; ids of a text: mc_session_reuse_text */
    MC_LEAD_EXPECT,         /* session, tokens */
    MC_LEAD_RESERVE,        /* session, tokens */
    MC_LEAD_RESERVE_MORE,   /* session, tokens */
    MC_LEAD_FEED,           /* session and its flags, whether logits are wanted; ids */
    MC_LEAD_LOOK_AHEAD,     /* session and its flags; ids */
    MC_LEAD_BATCH,          /* rows; of each row session and flags, and how many ids; ids */
    MC_LEAD_OPS
} mc_lead_op;

/* ---- the team ---- */

/*  group   of all ranks, retained
 *  errors  MICA_ENOMEM */
mica_status mc_team_open(mica_group *group, mc_team **team);
void mc_team_close(mc_team **team); /* takes NULL inside */

mica_group *mc_team_group(const mc_team *team);

/* Says what to call, once, when the team breaks: in the thread that finds that. */
void mc_team_watch(mc_team *team, void (*broken)(void *user), void *user);

/* Breaks it with a status and the thread's error text, unless it is broken, and gives the group up:
 * the other ranks are told, and a collective that a thread waits in ends. Returns status. */
mica_status mc_team_break(mc_team *team, mica_status status);

/* MICA_OK, or what broke it. */
mica_status mc_team_check(mc_team *team);

/* Breaks it for who is told to end now. */
void mc_team_give_up(mc_team *team);

/* What rank 0 has sent, on the others: of which model, and the bytes, in place of those in `plan`.
 *  errors  MICA_EDEVICE a rank is gone; MICA_ENOMEM */
mica_status mc_team_hear(mc_team *team, int64_t *model, mc_buffer *plan);

/* ---- rank 0 ---- */

/* model: its number, from 1; of the team itself 0. errors  MICA_ENOMEM */
mica_status mc_lead_open(mc_team *team, int64_t model, mc_lead **lead);
void mc_lead_close(mc_lead **lead); /* takes NULL inside */

mc_team *mc_lead_team(const mc_lead *lead); /* NULL for NULL */

/* Begins an op; one within another is not written. mc_lead_done ends it, and returns `status`. */
void mc_lead_say(mc_lead *lead, mc_lead_op op, const int64_t *numbers, size_t n);
void mc_lead_say_ids(mc_lead *lead, const int32_t *ids, int64_t n);
void mc_lead_say_text(mc_lead *lead, const char *text);
mica_status mc_lead_done(mc_lead *lead, mica_status status);
/* The same for what is no status: the same number on all ranks. */
void mc_lead_done_with(mc_lead *lead, int64_t result);

/* A number for a new session, the lowest that is free; gives it back. */
int64_t mc_lead_take_number(mc_lead *lead);
void mc_lead_give_number(mc_lead *lead, int64_t number);

/* Sends what was written, if anything was, and takes the team's turn for that.
 *  errors  what broke the team; MICA_EDEVICE; MICA_ENOMEM */
mica_status mc_lead_send(mc_lead *lead);

/* Gives the turn back: after a step. */
void mc_lead_rest(mc_lead *lead);

/* ---- reading plans ---- */

typedef struct mc_plan_reader {
    const char *at, *end;
    bool bad; /* it ended within a number */
} mc_plan_reader;

int64_t mc_plan_number(mc_plan_reader *r);

#endif
