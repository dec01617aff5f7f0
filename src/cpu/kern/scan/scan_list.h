/* Kernels of recurrences: MK_LANES channels or columns side by side, step after step. They give the
 * same bits on every instruction set, however the steps are divided among calls.
 *
 * selective_scan: for each of `length` steps
 *                     state[i] = exp(delta[t] a[i]) state[i] + delta[t] x[t] b[t, i]
 *                     y[t] = sum_i c[t, i] state[i]
 *                 x, delta, y: [length, MK_LANES]; a, state: [n, MK_LANES]; b, c: [length, n].
 * selective_back: one step of its gradient, where the state was `before` and became `after`, and
 *                 `carry` is the state's gradient from later steps; carry becomes that of `before`.
 *                     g[i] = dy c[i] + carry[i]
 *                     dx = sum_i g[i] b[i] delta
 *                     ddelta = sum_i g[i] (a[i] w[i] before[i] + b[i] x)    w = exp(delta a)
 *                     da[i] += g[i] w[i] before[i] delta
 *                     db[i] += sum over lanes g[i] delta x, dc[i] += sum over lanes dy after[i]
 *                 x, delta, dy, dx, ddelta: [MK_LANES]; a, before, after, carry, da: [n, MK_LANES];
 *                 b, c, db, dc: [n].
 * delta_scan:     for each of `length` steps, with MK_LANES columns of the state
 *                     state[i] *= decay[t]
 *                     d = beta[t] (v[t] - sum_i k[t, i] state[i])
 *                     state[i] += k[t, i] d
 *                     o[t] = scale sum_i q[t, i] state[i]
 *                 q, k: [length, n]; v, o: [length, MK_LANES]; decay, beta: [length]; state:
 *                 [n, MK_LANES].
 * linear_scan:    the same with
 *                     state[i] = decay[t] state[i] + k[t, i] v[t]
 *                     o[t] = sum_i q[t, i] state[i] */
KERN(selective_scan, void,
     (int64_t length, int64_t n, const float *x, const float *delta, const float *a, const float *b,
      const float *c, float *state, float *y))
KERN(selective_back, void,
     (int64_t n, const float *x, const float *delta, const float *dy, const float *a,
      const float *b, const float *c, const float *before, const float *after, float *carry,
      float *dx, float *ddelta, float *da, float *db, float *dc))
KERN(delta_scan, void,
     (int64_t length, int64_t n, const float *q, const float *k, const float *v, const float *decay,
      const float *beta, float scale, float *state, float *o))
KERN(linear_scan, void,
     (int64_t length, int64_t n, const float *q, const float *k, const float *v, const float *decay,
      float *state, float *o))
