/* The engine mlx_lm of a build without it: it says how to get it. */
#include "engine/engine.h"
#include "io/folder.h"

static mica_status available(const mc_engine *engine, const mica_model_options *options) {
    (void)engine, (void)options;
    return mc_fail(MICA_EUNSUPPORTED,
                   "this mica was built without it: configure mica with -DMICA_MLX_LM=ON");
}

static bool takes(const mc_engine *engine, const char *folder) {
    (void)engine;
    return mc_model_folder_is(folder);
}

static const mc_engine_ops ops = {.available = available, .takes = takes};

const mc_engine mc_engine_mlx_lm = {
    .name = "mlx_lm",
    .description = "Python's mlx-lm, in a process of its own for each model",
    .preference = -100,
    .ops = &ops,
};
