/* Which known family a model of an unknown one is nearest to. */
#include "model/family.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 128

/* What a family asks for and the files lack, and what they have beside it; a name of each. */
typedef struct difference {
    const mc_family *family;
    size_t alike;  /* how many of its name's first letters the wanted family's has; of 3, else 0 */
    size_t equals; /* other families that differ as much */
    size_t missing, strange;
    char first_missing[NAME_BYTES], first_strange[NAME_BYTES];
} difference;

static void note(size_t *count, char first[NAME_BYTES], int len, const char *name) {
    if (!(*count)++) snprintf(first, NAME_BYTES, "%.*s", len, name);
}

static void find_missing(const mc_decoder_spec *spec, const mc_weights *weights, difference *d) {
    const mc_block_spec *block;
    for (int i = 0; i < spec->n_layers; i++)
        for (int k = 0; (block = mc_spec_block(spec, i, k)); k++)
            for (int j = 0; j < block->kind->n_slots; j++)
                if (block->names[j] && !mc_family_holds(weights, spec, i, block->names[j], false) &&
                    !mc_family_holds(weights, spec, i, block->names[j], true))
                    note(&d->missing, d->first_missing, NAME_BYTES - 1, block->names[j]);
}

/* "layers.0.mlp.up_proj.weight" -> "layers.0.mlp.up_proj" */
static mc_str module_of(mc_str name) {
    static const char *const endings[] = {".weight", ".bias", ".scales", ".biases"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (mc_str_ends(name, mc_str_of(endings[i])))
            return (mc_str){name.ptr, name.len - strlen(endings[i])};
    return name;
}

/* false: the files' layers have other names altogether, so that none of them is strange. */
static bool find_strange(const mc_decoder_spec *spec, const mc_weights *weights, difference *d) {
    const mc_str layers = mc_str_of(mc_spec_layers(spec));
    mc_spec_slot at;
    bool any = false;
    for (size_t i = 0; i < mc_weights_count(weights); i++) {
        mc_str module = module_of(mc_decoder_name(mc_str_of(mc_weights_at(weights, i)->name)));
        if (!mc_str_starts(module, layers)) continue;
        any = true;
        if (!mc_spec_find(spec, module, &at))
            note(&d->strange, d->first_strange, (int)module.len, module.ptr);
    }
    return any;
}

/* false: the family cannot read the config, or has no such layers. */
static bool compare(const mc_config_scope *root, const mc_weights *weights, mc_decoder_spec *spec,
                    difference *d) {
    *spec = (mc_decoder_spec){0};
    mc_family_look(weights, spec);
    if (d->family->read(root, spec) != MICA_OK) return false;
    mc_family_find_forms(weights, spec);
    find_missing(spec, weights, d);
    return find_strange(spec, weights, d);
}

static size_t count_alike(const char *name, mc_str wanted) {
    size_t n = 0;
    while (n < wanted.len && name[n] && name[n] == wanted.ptr[n])
        n++;
    return n < 3 ? 0 : n;
}

/* Of those that differ as much, which only their configs tell apart, it is the one whose name is
 * most like the wanted one, else the first. */
static bool find_nearest(const mc_config_scope *root, const mc_weights *weights, mc_str wanted,
                         mc_decoder_spec *spec, difference *best) {
    *best = (difference){0};
    for (size_t i = 0; mc_family_at(i); i++) {
        difference d = {.family = mc_family_at(i)};
        if (!compare(root, weights, spec, &d)) continue;
        d.alike = count_alike(d.family->name, wanted);
        size_t size = d.missing + d.strange, least = best->missing + best->strange;
        bool equal = best->family && size == least;
        d.equals = equal ? best->equals + 1 : 0;
        if (!best->family || size < least || (equal && d.alike > best->alike))
            *best = d;
        else if (equal)
            best->equals = d.equals;
    }
    return best->family;
}

static void list_all(char *text, size_t bytes) {
    size_t len = (size_t)snprintf(text, bytes, "those that mica knows:");
    for (size_t i = 0; mc_family_at(i) && len < bytes; i++)
        len +=
            (size_t)snprintf(text + len, bytes - len, "%s %s", i ? "," : "", mc_family_at(i)->name);
}

static void describe(const difference *d, char *text, size_t bytes) {
    size_t len =
        (size_t)snprintf(text, bytes, "the nearest that mica knows is %s", d->family->name);
    if (!d->missing && !d->strange && d->equals)
        snprintf(
            text + len, bytes - len,
            ", whose tensors these are, and those of %zu others: if it is one, config.json may "
            "say so",
            d->equals);
    else if (!d->missing && !d->strange)
        snprintf(text + len, bytes - len,
                 ", whose tensors these are: if it is one, config.json may say so");
    if (d->missing)
        len += (size_t)snprintf(text + len, bytes - len, "; %zu of its tensors are missing: %s ...",
                                d->missing, d->first_missing);
    if (d->strange)
        snprintf(text + len, bytes - len, "; it has none of %zu that are there: %s ...", d->strange,
                 d->first_strange);
}

void mc_family_nearest(const mc_config_scope *root, const mc_weights *weights, mc_str wanted,
                       char *text, size_t bytes) {
    difference d;
    mc_decoder_spec *spec =
        weights && mc_family_prefix(weights) ? mc_calloc(1, sizeof *spec) : NULL;
    if (spec && find_nearest(root, weights, wanted, spec, &d))
        describe(&d, text, bytes);
    else
        list_all(text, bytes);
    mc_free(spec);
}
