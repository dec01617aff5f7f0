/* Texts that surely differ from each other: each has a character of another group in one place. An
 * automaton cannot remember texts, but it can remember groups. */
#include "grammar/grammar_chars.h"
#include "grammar/grammar_product.h"
#include "grammar/schema_parts.h"

#include <string.h>

enum { LETTERS = 62 };

/* The more groups have to be told apart, the fewer there are: of up to 968 subsets, and 2^10. */
int mc_distinct_groups(int64_t count) {
    return count <= 2 ? MC_DISTINCT_GROUPS : count == 3 ? 16 : count == 4 ? 12 : MC_DISTINCT;
}

/* Characters of a group: letters and digits by turns, and all others in the last one. Returns the
 * number of ranges. */
static size_t group_ranges(int groups, int group, mc_char_range *ranges) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const mc_char_range others[] = {
        {0, '0' - 1}, {'9' + 1, 'A' - 1}, {'Z' + 1, 'a' - 1}, {'z' + 1, MC_CHAR_MAX}};
    size_t n = 0;
    for (int i = group; i < LETTERS; i += groups, n++)
        ranges[n].low = ranges[n].high = (uint8_t)letters[i];
    if (group < groups - 1) return n;
    memcpy(ranges + n, others, sizeof others);
    return n + sizeof others / sizeof *others;
}

/* Adds the language of texts with a character of a group in the place. */
static bool add_group(mc_schema *s, mc_builder *parts, mc_buffer *languages, const mc_distinct *d,
                      int group) {
    static const mc_char_range any = {0, MC_CHAR_MAX};
    mc_char_range ranges[LETTERS + 4];
    size_t n = group_ranges(d->groups, group, ranges);
    int32_t loop = mc_build_open(parts);
    mc_build_close(parts, loop, mc_build_class(parts, MC_CHARS_JSON, &any, 1, loop), MC_RETURN);
    int32_t start = mc_build_class(parts, MC_CHARS_JSON, ranges, n, loop);
    for (int i = 0; i < d->place; i++)
        start = mc_build_class(parts, MC_CHARS_JSON, &any, 1, start);
    const mc_language new = {start, false};
    return mc_buffer_add(languages, &new, sizeof new) || (mc_schema_nomem(s), false);
}

/* Builds texts of a group in any builder. */
static int32_t build_text(mc_schema *s, mc_builder *b, mc_builder *parts, mc_buffer *languages,
                          const mc_distinct *d, int group, int32_t next) {
    size_t before = languages->len;
    int32_t all = MC_DEAD;
    if (add_group(s, parts, languages, d, group))
        all = mc_build_product(b, parts, MC_BUFFER_AT(languages, mc_language),
                               MC_BUFFER_COUNT(languages, mc_language), next);
    languages->len = before;
    return all;
}

int32_t mc_distinct_text(mc_schema *s, mc_builder *parts, mc_buffer *languages,
                         const mc_distinct *d, int group, int32_t next) {
    return build_text(s, s->b, parts, languages, d, group, next);
}

/* Whether there are texts of a group. false: error of the builder. */
static bool has_texts(mc_schema *s, mc_builder *parts, mc_buffer *languages, const mc_distinct *d,
                      int group, bool *yes) {
    mc_builder trial;
    mc_grammar *grammar = NULL;
    mc_builder_init(&trial);
    trial.work = s->b->work;
    int32_t start = build_text(s, &trial, parts, languages, d, group, MC_RETURN);
    s->b->work = trial.work;
    bool none = trial.status == MICA_OK && start == MC_DEAD;
    mica_status status = none ? MICA_EINVAL : mc_grammar_finish(&trial, start, &grammar);
    *yes = status == MICA_OK;
    if (none) mc_builder_deinit(&trial);
    mc_grammar_close(&grammar);
    if (status != MICA_OK && status != MICA_EINVAL) mc_builder_fail(s->b, status);
    return s->b->status == MICA_OK;
}

bool mc_distinct_find(mc_schema *s, mc_builder *parts, mc_buffer *languages, int64_t want,
                      mc_distinct *d) {
    for (d->place = 0; d->place < MC_DISTINCT_PLACES; d->place++) {
        uint64_t *found = &d->found[d->place];
        for (int i = 0; i < d->groups && __builtin_popcountll(*found) < want; i++) {
            bool yes = true;
            if (!(*found >> i & 1) && !has_texts(s, parts, languages, d, i, &yes)) return false;
            *found |= (uint64_t)yes << i;
        }
        if (__builtin_popcountll(*found) >= want) break;
    }
    return true;
}

int64_t mc_distinct_choose(mc_distinct *d) {
    d->place = 0;
    for (int i = 1; i < MC_DISTINCT_PLACES; i++)
        if (__builtin_popcountll(d->found[i]) > __builtin_popcountll(d->found[d->place]))
            d->place = i;
    return __builtin_popcountll(d->found[d->place]);
}

void mc_distinct_fail(mc_schema *s, int64_t want) {
    mc_builder_fail(s->b, mc_fail(MICA_EUNSUPPORTED,
                                  "no place of these texts tells %d of them apart", (int)want));
}

/* What comes behind `count` texts of the groups in `used`; the map knows what was built. */
static int32_t behind(mc_schema *s, const mc_distinct *d, mc_map *known, uint64_t used, int count) {
    mc_builder *b = s->b;
    uint64_t node;
    const mc_str key = {(const char *)&used, sizeof used};
    if (count == d->levels) return d->ends[count];
    if (mc_map_find(known, key, &node)) return (int32_t)node;
    int32_t all = MC_DEAD;
    for (int i = 0; i < d->groups && mc_schema_work(s, 8); i++) {
        if (used >> i & 1) continue;
        int32_t next = behind(s, d, known, used | UINT64_C(1) << i, count + 1);
        all = mc_build_split(b, mc_build_call(b, d->rules[i], next), all);
    }
    if (count || d->behind) all = mc_build_range(b, ',', ',', mc_build_space(s->rules, all));
    all = mc_build_split(b, all, d->ends[count]);
    uint64_t *kept = mc_arena_alloc(&s->arena, sizeof *kept);
    if (!kept) return mc_schema_nomem(s);
    *kept = used;
    if (!mc_map_put(known, (mc_str){(const char *)kept, sizeof *kept}, (uint64_t)all))
        return mc_schema_nomem(s);
    return all;
}

int32_t mc_build_distinct(mc_schema *s, const mc_distinct *d) {
    mc_map known = {0};
    int32_t all = behind(s, d, &known, 0, 0);
    mc_map_deinit(&known);
    return all;
}
