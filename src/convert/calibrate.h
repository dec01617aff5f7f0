/* Choosing the bits of a model's matrices by what they cost: the divergence of its predictions.
 *
 * Matrices are taken in groups: attention and MLP of each layer, the embedding, the head. Each
 * group alone is quantised with each number of bits, and the divergence KL(model || quantised) on a
 * text is measured. Then bits are spent where a bit lowers the sum of divergences most, until the
 * model has the wanted size: once from two bits everywhere on, and once from the largest number
 * that all matrices can have. Divergences do not quite add up, so both choices are measured as a
 * whole, and the better one is taken. The same model, text and options give the same bits on any
 * number of threads.
 *
 * Threads: a calibration belongs to one. */
#ifndef CONVERT_CALIBRATE_H
#define CONVERT_CALIBRATE_H

#include "base/status.h"
#include "convert/source.h"

#include <mica/convert.h>

/* Measures and chooses.
 *
 * source   a folder that is not quantised, with a tokenizer.
 * options  calibration, target_bits, quant.group_size, progress (in passes), cancel are read.
 * dtype    of scales and biases, and of what is not quantised; cast: all floats become that.
 * bits     [parts] receives 0 for parts that are not quantised. Given zeroed.
 * errors   MICA_EINVAL the target is below what 2 bits take; the text is too short; no tokenizer.
 *          Those of mica_convert */
mica_status mc_calibrate(const mc_source *source, const mica_convert_options *options,
                         mica_device *device, mica_dtype dtype, bool cast, int *bits,
                         double *divergence);

/* The choice alone. costs [groups][MC_BITS] divergences for mc_bits, weights [groups] numbers of
 * weights; budget: bits of all weights, without scales; from: the index of mc_bits that all begin
 * with. choice [groups] receives indices of mc_bits. false: these are above the budget. */
enum { MC_BITS = 6 };
extern const int mc_bits[MC_BITS]; /* 2 3 4 5 6 8 */
bool mc_spend_bits(const double (*costs)[MC_BITS], const uint64_t *weights, size_t groups,
                   double budget, int from, int *choice);

#endif
