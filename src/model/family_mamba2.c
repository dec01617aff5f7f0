/* What configs say of Mamba-2. */
#include "model/family.h"

#include <math.h>

static mica_status read_sizes(const mc_config_scope *text, const mc_mamba2_keys *keys,
                              mc_mamba2_spec *m) {
    const int64_t max = 1 << 16;
    double limits[2] = {0.0, INFINITY};
    size_t n = 2;
    MC_TRY(mc_config_int(text, keys->heads, MC_OPTIONAL, 1, max, &m->heads));
    if (keys->head_dim)
        MC_TRY(mc_config_int(text, keys->head_dim, MC_OPTIONAL, 1, max, &m->head_dim));
    MC_TRY(mc_config_int(text, keys->groups, MC_OPTIONAL, 1, max, &m->groups));
    MC_TRY(mc_config_int(text, keys->state, MC_OPTIONAL, 1, max, &m->state));
    MC_TRY(mc_config_int(text, keys->taps, MC_OPTIONAL, 2, 1024, &m->taps));
    MC_TRY(mc_config_floats(text, "time_step_limit", MC_OPTIONAL, 0.0, INFINITY, limits, 2, &n));
    m->min_step = limits[0];
    m->max_step = limits[1];
    if (n != 2) return mc_config_fail(text, "time_step_limit", MICA_EFORMAT, "want two numbers");
    if (m->head_dim < 1 || m->heads % m->groups)
        return mc_config_fail(text, keys->heads, MICA_EFORMAT, "%lld heads of %lld in %lld groups",
                              (long long)m->heads, (long long)m->head_dim, (long long)m->groups);
    return MICA_OK;
}

mica_status mc_family_mamba2(const mc_config_scope *text, const mc_mamba2_keys *keys,
                             mc_mamba2_spec m, mc_decoder_spec *spec, int *block) {
    bool kernel_bias = true, bias = false;
    MC_TRY(read_sizes(text, keys, &m));
    MC_TRY(mc_config_bool(text, keys->kernel_bias, MC_OPTIONAL, &kernel_bias));
    MC_TRY(mc_config_bool(text, keys->bias, MC_OPTIONAL, &bias));
    *block = mc_spec_add(spec, &mc_block_mamba2);
    mc_block_spec *b = &spec->blocks[*block];
    b->mamba2 = m;
    b->n_carried = 2;
    b->carried[0] =
        (mc_carried){MICA_F32, 2, {m.taps - 1, m.heads * m.head_dim + 2 * m.groups * m.state}};
    b->carried[1] = (mc_carried){MICA_F32, 3, {m.heads, m.state, m.head_dim}};
    if (kernel_bias) mc_block_use(b, MC_MAMBA2_BIAS);
    if (bias) b->biases = (uint64_t)1 << MC_MAMBA2_IN | (uint64_t)1 << MC_MAMBA2_OUT;
    return MICA_OK;
}
