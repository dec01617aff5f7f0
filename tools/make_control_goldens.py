#!/usr/bin/env python3
"""Makes tests/fixtures/ops/control.* and loops.*: branches, loops and scans as JAX computes them,
in f64.

    python3 tools/make_control_goldens.py  (needs the Python packages jax, numpy and safetensors;
                                            made with jax 0.10.2 on a CPU)

A record's outputs are one array, the results side by side, and its gradients by the float inputs,
of sum(result * dy), or, of `while_forward`, its derivative in a direction; those of `loops` are the
results alone where they have whole numbers in them. What the functions are say
tests/op/golden_control.c and golden_loops.c.
"""
import jax
import jax.numpy as jnp
import numpy as np

from nn_goldens import Records

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(36)
records = Records("control")
loops = Records("loops")


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def f32(y):
    return np.asarray(y, np.float32)


def wide(inputs):
    return {k: jnp.asarray(x, jnp.float64) if x.dtype == np.float32 else x
            for k, x in inputs.items()}


def add(op, args, f, inputs, to=records):
    y, back = jax.vjp(lambda given: f(**given), wide(inputs))
    dy = normal(*y.shape)
    (grads,) = back(jnp.asarray(dy, jnp.float64))
    floats = [k for k, x in inputs.items() if x.dtype == np.float32]
    to.add(op, args, {**inputs, "dy": dy}, [f32(y)] + [f32(grads[k]) for k in floats])


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


def add_results(op, args, f, inputs):
    ys = [np.asarray(y) for y in f(**wide(inputs))]
    ys = [f32(y) if y.dtype == np.float64 else y.astype(np.int32) for y in ys]
    loops.add(op, args, inputs, ys)


def newton(a, most):
    """Square roots, until they are near enough, and in how many rounds."""
    def go(carry):
        x, n = carry
        return (jnp.abs(x * x - a).max() > 1e-3) & (n < most)
    return jax.lax.while_loop(go, lambda c: ((c[0] + a / c[0]) / 2, c[1] + 1), (a, 0))


def collatz(n):
    """A branch in each round, over whole numbers; the largest on the way, and the rounds."""
    def step(carry):
        n, top, rounds = carry
        n = jax.lax.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
        return n, jnp.maximum(top, n), rounds + 1
    return jax.lax.while_loop(lambda c: c[0] != 1, step, (n, n, jnp.zeros_like(n)))


def halving(h, xs):
    """A loop in each step of a scan."""
    def step(h, x):
        h, n = jax.lax.while_loop(lambda c: jnp.abs(c[0]).max() > 1,
                                  lambda c: (c[0] / 2, c[1] + 1), (h + x, 0))
        return h, (h.sum(), n)
    h, (ys, ns) = jax.lax.scan(step, h, xs)
    return h, ys, ns


def settling(x, w):
    """A scan in each round of a loop."""
    def go(c):
        return jnp.abs(c[0]).sum() > 1
    def step(h, row):
        return h * 0.7 + 0.1 * jnp.sin(row), None
    return jax.lax.while_loop(go, lambda c: (jax.lax.scan(step, c[0], w)[0], c[1] + 1), (x, 0))


def power(x, w, rounds):
    """A loop that only the bound ends."""
    def step(_, x):
        x = x @ w
        return x / jnp.sqrt((x * x).sum())
    return jax.lax.fori_loop(0, rounds, step, x)


def logistic(x, r, length):
    """A scan without rows."""
    def step(x, _):
        x = r * x * (1 - x)
        return x, x
    x, ys = jax.lax.scan(step, x, None, length=length)
    return flat(x, ys)


def momentum(p, v, gs, reverse):
    """Two values are carried, and each step gives two rows."""
    def step(carry, g):
        p, v = carry
        v = 0.9 * v + g * p
        p = p - 0.1 * v
        return (p, v), (p, v * v)
    (p, v), (ps, vs) = jax.lax.scan(step, (p, v), gs, reverse=reverse)
    return flat(p, v, ps, vs)


def branch_of_scans(pred, x):
    """A scan in each branch."""
    def product(): return jax.lax.scan(lambda h, row: (h * row, h + row), x[0], x)[1]
    def largest(): return jax.lax.scan(lambda h, row: (jnp.maximum(h, row), h * row), x[0], x)[1]
    return jax.lax.cond(pred, product, largest)


def counting(xs):
    """Whole numbers alone; of no rows, too."""
    def step(carry, x):
        total, top = carry
        total = total + jnp.where(x > 0, x, 0)
        return (total, jnp.maximum(top, x)), total * 2 - x
    zero = jnp.zeros((2,), jnp.int32)
    (total, top), ys = jax.lax.scan(step, (zero, zero - 100), xs)
    return total, top, ys


def add_loops():
    for most in (40, 3):
        add_results("newton", {"most": most}, lambda a: newton(a, most),
                    {"a": np.abs(normal(5)) + 1})
    for n in (1, 6, 27):
        add_results("collatz", {}, collatz, {"n": np.array(n, np.int32)})
    for length in (1, 6):
        add_results("halving", {}, halving, {"h": normal(3), "xs": normal(length, 3) * 2})
    for rows in (1, 5):
        add_results("settling", {}, settling, {"x": normal(4) * 9, "w": normal(rows, 4)})
    for rounds in (1, 9):
        add("power", {"rounds": rounds}, lambda x, w: power(x, w, rounds),
            {"x": normal(1, 4), "w": normal(4, 4)}, loops)
    for length in (1, 6):
        add("logistic", {"length": length}, lambda x, r: logistic(x, r, length),
            {"x": np.array([0.3, 0.6], np.float32), "r": np.array([1.5, 2.5], np.float32)}, loops)
    for reverse in (False, True):
        add("momentum", {"reverse": reverse}, lambda p, v, gs: momentum(p, v, gs, reverse),
            {"p": normal(3), "v": normal(3), "gs": normal(7, 3)}, loops)
    for pred in (True, False):
        add("branch_of_scans", {"pred": pred}, lambda x: branch_of_scans(pred, x),
            {"x": normal(5, 3)}, loops)
    for length in (5, 0):
        add_results("counting", {}, counting,
                    {"xs": random.integers(-9, 10, (length, 2)).astype(np.int32)})


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
    add_loops()
    loops.save()


if __name__ == "__main__":
    main()
