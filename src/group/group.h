/* Groups of ranks: handles, back ends, and what collectives do with bytes.
 *
 * A back end moves bytes; sums are made here, from all ranks' numbers in the order of ranks. An op
 * names its group by a number, which is never given twice. Threads: as mica/group.h says; numbers
 * are looked up from any thread. */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include <mica/group.h>

#include "base/status.h"

/* A back end: a row of backend_list.h and a file. All ranks call these together, but send, recv,
 * close and abort. errors  MICA_EDEVICE a rank is gone: the text names it; MICA_ENOMEM */
typedef struct mc_group_ops {
    const char *name;
    /* Whether the environment says that this process is one of its ranks. */
    bool (*is_started)(void);
    mica_status (*open)(double patience_s, void **state, int *rank, int *size);
    mica_status (*split)(void *state, int color, int key, void **part, int *rank, int *size);
    void (*close)(void *state);
    void (*abort)(void *state, int code);
    /* Each rank's `bytes` at in, on all: out [size][bytes]. */
    mica_status (*all_gather)(void *state, const void *in, size_t bytes, void *out);
    /* in [size][bytes], a part for each rank -> out [size][bytes], a part from each. */
    mica_status (*all_to_all)(void *state, const void *in, size_t bytes, void *out);
    mica_status (*broadcast)(void *state, void *data, size_t bytes, int root);
    mica_status (*send)(void *state, const void *data, size_t bytes, int to);
    mica_status (*recv)(void *state, void *data, size_t bytes, int from);
    /* Ends the call that another thread waits in, if it waits, and all later ones, by MICA_EDEVICE,
     * and tells the other ranks why. Any thread. NULL: none waits. */
    void (*give_up)(void *state, const char *why);
    /* Whether all ranks give signs of life. Any thread. NULL: there are no others.
     * errors  MICA_EDEVICE one does not: the text names it */
    mica_status (*check)(void *state);
    /* mc_group_sleep. NULL: none waits. */
    void (*sleep)(void *state);
} mc_group_ops;

#define GROUP(name) extern const mc_group_ops mc_group_##name;
#include "group/backend_list.h"

/* One user more or less; the last one closes it. */
mica_group *mc_group_retain(mica_group *group);
void mc_group_release(mica_group *group);

/* Ends what a thread waits for, with MICA_EDEVICE, and all that comes after it, on all ranks: the
 * others get MICA_EDEVICE, with this rank and the thread's error text. Any thread. */
void mc_group_give_up(mica_group *group);

/* Between collectives: gives the group up where this rank fails alone, as the others would wait for
 * it in the next one. Returns status. Nothing is done for MICA_OK, and for NULL. */
mica_status mc_group_end_on(mica_group *group, mica_status status);

/* Tells all ranks how this one fared, with its error text: all return the status of the first one
 * that has failed, which the text of the others names. All ranks call it together; NULL: nothing is
 * told.
 *  errors  that; MICA_EDEVICE a rank is gone; MICA_ENOMEM */
mica_status mc_group_outcome(mica_group *group, mica_status status);

/* Whether no rank is gone, for who waits elsewhere than in the group. Any thread.
 * errors  MICA_EDEVICE */
mica_status mc_group_check(mica_group *group);

/* From now on who waits in it sleeps at once, as other threads of this process compute meanwhile:
 * else it watches for 2 ms, which costs them the processor. */
void mc_group_sleep(mica_group *group);

/* What nodes know it by. */
int64_t mc_group_number(const mica_group *group);

/* The group of a number, retained. errors  MICA_EINVAL it is closed, or never was */
mica_status mc_group_find(int64_t number, mica_group **group);

/* ---- collectives over dense elements ---- */

/* Whether numbers of a dtype can be added. */
bool mc_group_adds(mica_dtype dtype);

/* n elements at in of each rank -> their sum at out, which may be in. */
mica_status mc_group_all_reduce(mica_group *group, const void *in, size_t n, mica_dtype dtype,
                                void *out);
/* in [size][n] -> this rank's n elements of the sum. */
mica_status mc_group_reduce_scatter(mica_group *group, const void *in, size_t n, mica_dtype dtype,
                                    void *out);
mica_status mc_group_all_gather(mica_group *group, const void *in, size_t bytes, void *out);
mica_status mc_group_all_to_all(mica_group *group, const void *in, size_t bytes, void *out);
mica_status mc_group_broadcast(mica_group *group, void *data, size_t bytes, int root);
mica_status mc_group_send(mica_group *group, const void *data, size_t bytes, int to);
mica_status mc_group_recv(mica_group *group, void *data, size_t bytes, int from);

#endif
