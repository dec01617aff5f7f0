#!/usr/bin/env python3
"""Makes tests/fixtures/ops/control.*: branches, loops and scans as JAX computes them, in f64.

    python3 tools/make_control_goldens.py  (needs the Python packages jax, numpy and safetensors;
                                            made with jax 0.10.2 on a CPU)

A record's outputs are one array, the results side by side, and its gradients by the float inputs,
of sum(result * dy), or, of `while_forward`, its derivative in a direction. What the functions are
says tests/op/golden_control.c.
"""
import jax
import jax.numpy as jnp
import numpy as np

from nn_goldens import Records

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(36)
records = Records("control")


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def f32(y):
    return np.asarray(y, np.float32)


def wide(inputs):
    return {k: jnp.asarray(x, jnp.float64) if x.dtype == np.float32 else x
            for k, x in inputs.items()}


def add(op, args, f, inputs):
    y, back = jax.vjp(lambda given: f(**given), wide(inputs))
    dy = normal(*y.shape)
    (grads,) = back(jnp.asarray(dy, jnp.float64))
    floats = [k for k, x in inputs.items() if x.dtype == np.float32]
    records.add(op, args, {**inputs, "dy": dy}, [f32(y)] + [f32(grads[k]) for k in floats])


def flat(*xs):
    return jnp.concatenate([x.reshape(-1) for x in xs])


def cond(pred, x, w, b):
    then = lambda: (jnp.tanh(x @ w), jnp.broadcast_to((x * b).sum(0), b.shape))
    other = lambda: (x @ w * 0.5, jnp.exp(b))
    return flat(*jax.lax.cond(pred, then, other))


def nested(a, b, x, w):
    inner = lambda: jax.lax.cond(b, lambda: jnp.sin(x @ w), lambda: x * 2)
    return jax.lax.cond(a, inner, lambda: x @ w @ w)


def rnn(h, xs, u, w, reverse):
    def step(h, x):
        h = jnp.tanh(h @ u + x @ w)
        return h, h * h
    h, ys = jax.lax.scan(step, h, xs, reverse=reverse)
    return flat(h, ys)


def lengths(h, xs, w):
    """A count is carried along, and a branch is taken every third step."""
    def step(carry, x):
        i, h = carry
        h = jax.lax.cond(i % 3 == 0, lambda: h @ w + x, lambda: h * x)
        return (i + 1, h), jnp.sin(h)
    (_, h), ys = jax.lax.scan(step, (0, h), xs)
    return flat(h, ys)


def grid(xs, w):
    """A scan over rows of scans over elements."""
    def element(h, x):
        h = jnp.tanh(h * w + x)
        return h, h
    def row(h, xs):
        _, ys = jax.lax.scan(element, h, xs)
        return ys[-1], ys.sum()
    h, ys = jax.lax.scan(row, w * 0, xs)
    return flat(h, ys)


def bounded(x, w, limit, rounds):
    """lax.while_loop has no gradient: a scan of so many steps, each of which may do nothing."""
    def step(x, _):
        return jnp.where(jnp.abs(x).max() < limit, jnp.sinh(x @ w) + x, x), None
    return jax.lax.scan(step, x, None, length=rounds)[0]


def add_forward():
    x, w, u = normal(3, 4), normal(4, 4) / 2, normal(3, 4)

    def f(x):
        go = lambda x: jnp.abs(x).max() < 50
        return jax.lax.while_loop(go, lambda x: x @ jnp.asarray(w, jnp.float64) + 1.5 * x, x)
    y, dy = jax.jvp(f, (jnp.asarray(x, jnp.float64),), (jnp.asarray(u, jnp.float64),))
    records.add("while_forward", {}, {"x": x, "w": w, "u": u}, [f32(y), f32(dy)])


def main():
    for pred in (True, False):
        add("if", {"pred": pred}, lambda x, w, b: cond(pred, x, w, b),
            {"x": normal(3, 4), "w": normal(4, 5), "b": normal(3, 4)})
    for a, b in ((True, True), (True, False), (False, True)):
        add("if_nested", {"a": a, "b": b}, lambda x, w: nested(a, b, x, w),
            {"x": normal(3, 4), "w": normal(4, 4)})
    for length, reverse, checkpoints in ((1, False, 0), (7, False, 0), (12, True, 3),
                                         (16, False, 1), (11, True, 11), (5, False, 4)):
        add("scan", {"reverse": reverse, "checkpoints": checkpoints},
            lambda h, xs, u, w: rnn(h, xs, u, w, reverse),
            {"h": normal(3), "xs": normal(length, 2), "u": normal(3, 3), "w": normal(2, 3)})
    for length in (4, 10):
        add("scan_branch", {}, lengths, {"h": normal(2, 3), "xs": normal(length, 2, 3),
                                         "w": normal(3, 3)})
    add("scan_nested", {}, grid, {"xs": normal(5, 6), "w": normal()})
    for limit, rounds in ((9.0, 12), (1e9, 3), (0.0, 4)):
        add("while", {"limit": limit, "rounds": rounds},
            lambda x, w: bounded(x, w, limit, rounds),
            {"x": normal(3, 3) / 2, "w": normal(3, 3) / 3})
    add_forward()
    records.save()


if __name__ == "__main__":
    main()
