/* How a model's weights are quantised, as config.json's "quantization" says: common values, and
 * exceptions by the name of the module. Whether a weight is quantised at all, its tensors show. */
#ifndef MODEL_PACKING_H
#define MODEL_PACKING_H

#include "base/status.h"
#include "io/config.h"

#include <mica/ops.h>

#define MC_PACKING_TEXT 64

/* bits or group_size 0: not given, the shapes of the tensors show it. */
typedef struct mc_packing {
    mc_config_scope scope; /* "quantization"; every key is absent if the model has none */
    mica_quant common;
    bool stated;   /* the config has the object */
    mc_str method; /* of weights that are quantised otherwise: "fp8"; their tensors say the rest */
} mc_packing;

/* Reads "quantization", else "quantization_config".
 * errors  MICA_EFORMAT; MICA_EUNSUPPORTED another mode, or those of mc_published_check */
mica_status mc_packing_read(const mc_config_scope *root, mc_packing *packing);

/* How one module, such as "model.layers.0.mlp.up_proj", is quantised: its own entry, else the
 * common one. `alias` is another name that the entry may have. */
mica_status mc_packing_of(const mc_packing *packing, const char *module, const char *alias,
                          mica_quant *quant);

/* Whether weights of this bits, group_size and mode are supported: see mica_quant_mode. */
bool mc_packing_known(const mica_quant *quant);

/* "4 bit, groups of 64 (affine)", with ", mixed" if some weights are quantised differently. */
void mc_packing_describe(const mica_quant *quant, bool mixed, char text[MC_PACKING_TEXT]);

/* "affine", "mxfp4" ... */
const char *mc_packing_mode_name(mica_quant_mode mode);

#endif
