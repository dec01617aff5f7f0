/* Texts of many lengths, good ones and bad ones, for tasks over many texts. */
#ifndef TASK_MANY_H
#define TASK_MANY_H

#include "model/fixture.h"

#include "task/texts.h"

#include <stdlib.h>

enum { MANY = 90, MANY_LONG = 700, MANY_EMPTY = 7, MANY_PAST = 11 };

typedef struct many {
    int32_t ids[MANY][MANY_LONG];
    mc_text texts[MANY];
} many;

/* Most are short, some are alike, each seventeenth is longer than a row; one is empty, and one has
 * a token past the vocabulary. */
static inline many *make_many(int64_t vocab) {
    many *m = malloc(sizeof *m);
    assert_non_null(m);
    for (int i = 0; i < MANY; i++) {
        int n = i % 17 == 3 ? 60 + i * 5 : 2 + i * i * 7 % 19;
        for (int k = 0; k < n; k++)
            m->ids[i][k] = (int32_t)((k * k * 31 + (k + 1) * (i % 60) * 7 + 3) % vocab);
        m->texts[i] = (mc_text){.ids = m->ids[i], .n = n};
    }
    m->texts[MANY_EMPTY].n = 0;
    m->ids[MANY_PAST][1] = (int32_t)vocab;
    return m;
}

#endif
