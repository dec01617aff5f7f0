#include "model/packing.h"

#include "io/published.h"

#include <stdio.h>

static const struct {
    const char *name;
    int bits, group_size; /* if the config does not say; 0: the shapes of the tensors say */
} modes[] = {
    [MICA_QUANT_AFFINE] = {"affine", 0, 0},
    [MICA_QUANT_MXFP4] = {"mxfp4", 4, 32},
    [MICA_QUANT_MXFP8] = {"mxfp8", 8, 32},
    [MICA_QUANT_NVFP4] = {"nvfp4", 4, 16},
};

const char *mc_packing_mode_name(mica_quant_mode mode) {
    return modes[mode].name;
}

void mc_packing_describe(const mica_quant *quant, bool mixed, char text[MC_PACKING_TEXT]) {
    snprintf(text, MC_PACKING_TEXT, "%d bit, groups of %d (%s)%s", quant->bits, quant->group_size,
             mc_packing_mode_name(quant->mode), mixed ? ", mixed" : "");
}

bool mc_packing_known(const mica_quant *quant) {
    int bits = quant->bits, group_size = quant->group_size;
    if (quant->mode != MICA_QUANT_AFFINE)
        return bits == modes[quant->mode].bits && group_size == modes[quant->mode].group_size;
    return bits >= 2 && bits <= 8 && bits != 7 &&
           (group_size == 32 || group_size == 64 || group_size == 128);
}

/* Reads the keys of an object; absent keys keep their values in *quant. */
static mica_status read_quant(const mc_config_scope *scope, mica_quant *quant) {
    mc_str mode = {NULL, 0};
    MC_TRY(mc_config_str(scope, "mode", MC_OPTIONAL, &mode));
    if (mode.ptr) {
        size_t i = 0;
        while (i < sizeof modes / sizeof *modes && !mc_str_is(mode, modes[i].name))
            i++;
        if (i == sizeof modes / sizeof *modes)
            return mc_config_fail(scope, "mode", MICA_EUNSUPPORTED,
                                  "\"%.*s\"; mica knows affine, mxfp4, mxfp8, nvfp4",
                                  MC_STR_ARG(mode));
        *quant = (mica_quant){(mica_quant_mode)i, modes[i].bits, modes[i].group_size};
    }
    int64_t bits = quant->bits, group_size = quant->group_size;
    MC_TRY(mc_config_int(scope, "bits", MC_OPTIONAL, 2, 8, &bits));
    MC_TRY(mc_config_int(scope, "group_size", MC_OPTIONAL, 16, 128, &group_size));
    quant->bits = (int)bits;
    quant->group_size = (int)group_size;
    return MICA_OK;
}

mica_status mc_packing_read(const mc_config_scope *root, mc_packing *packing) {
    *packing = (mc_packing){.common = {.mode = MICA_QUANT_AFFINE}};
    const char *key = mc_config_has(root, "quantization") ? "quantization" : "quantization_config";
    packing->stated = mc_config_has(root, key);
    MC_TRY(mc_config_object(root, key, MC_OPTIONAL, &packing->scope));
    if (mc_config_has(&packing->scope, "quant_method")) {
        MC_TRY(mc_published_check(&packing->scope, &packing->method));
        if (mc_str_is(packing->method, "mxfp4"))
            packing->common = (mica_quant){MICA_QUANT_MXFP4, 4, 32};
        packing->scope.object = (mc_json){0};
        return MICA_OK;
    }
    return read_quant(&packing->scope, &packing->common);
}

mica_status mc_packing_of(const mc_packing *packing, const char *module, const char *alias,
                          mica_quant *quant) {
    *quant = packing->common;
    const char *key = mc_config_has(&packing->scope, module) ? module : alias;
    if (!mc_config_has(&packing->scope, key)) return MICA_OK;
    bool whether;
    mc_config_scope own;
    /* true and false say whether the module is quantised, which its tensors show too. */
    if (mc_json_get_bool(mc_json_find(packing->scope.object, key), &whether)) return MICA_OK;
    MC_TRY(mc_config_object(&packing->scope, key, MC_REQUIRED, &own));
    /* Entries that name no mode are affine, whatever the common one is. */
    if (quant->mode != MICA_QUANT_AFFINE) *quant = (mica_quant){.mode = MICA_QUANT_AFFINE};
    return read_quant(&own, quant);
}
