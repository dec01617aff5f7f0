#!/usr/bin/env python3
"""Makes tests/fixtures/ops/fft.*: Fourier transforms by NumPy, gradients by JAX.

    python3 tools/make_fft_goldens.py     (needs the Python packages numpy, jax and safetensors;
                                           made with numpy 2.4.6 and jax 0.10.2)

Complex numbers are stored as f32 [..., 2]. NumPy computes in f64. Gradients are of
sum(|y|^2 * weights), as d/dRe + i d/dIm: the conjugate of what JAX gives.
"""
import jax
import jax.numpy as jnp
import numpy as np

from nn_goldens import Records

records = Records("fft")
random = np.random.default_rng(38)


def pairs(x):
    if not np.iscomplexobj(x):
        return x.astype(np.float32)
    return np.stack([x.real, x.imag], -1).astype(np.float32)


def numbers(*shape, real=False):
    x = random.standard_normal(shape).astype(np.float32)
    return x if real else x + 1j * random.standard_normal(shape).astype(np.float32)


def add(op, x, note=None, **args):
    numpy_args = {("s" if k == "n" and isinstance(v, list) else k): v for k, v in args.items()}
    if args.get("norm") == "none":
        numpy_args["norm"] = "forward" if op.startswith(("if", "irf")) else "backward"
    y = getattr(np.fft, op)(x.astype(np.complex128 if np.iscomplexobj(x) else np.float64),
                            **numpy_args)
    args["complex"] = bool(np.iscomplexobj(x))
    records.add(op, args, {"x": pairs(x)}, [pairs(y)], note)


def add_grad(op, x, **args):
    y = np.asarray(getattr(np.fft, op)(x, **args))
    w = random.standard_normal(y.shape)
    f = lambda v: jnp.sum(jnp.abs(getattr(jnp.fft, op)(v, **args)) ** 2 * w)
    g = np.conj(np.asarray(jax.grad(f)(jnp.asarray(x.astype(np.complex128) if np.iscomplexobj(x)
                                                   else x.astype(np.float64)))))
    args |= {"of": op, "complex": bool(np.iscomplexobj(x))}
    records.add("gradient", args, {"x": pairs(x), "w": w.astype(np.float32)}, [pairs(g)])


def add_plain(op, args, inputs, y):
    records.add(op, args, {k: pairs(v) for k, v in inputs.items()}, [pairs(np.asarray(y))])


def main():
    jax.config.update("jax_enable_x64", True)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 17, 30, 49, 64, 97, 101, 143, 210, 251):
        add("fft", numbers(2, n))
        add("rfft", numbers(2, n, real=True))
        if n <= 64 or n == 101:
            add("ifft", numbers(2, n))
            add("irfft", numbers(2, n // 2 + 1), n=n)
    add("irfft", numbers(3, 5))
    add("fft", numbers(3, 6, real=True))
    for norm in ("ortho", "forward", "none"):
        add("fft", numbers(2, 6), norm=norm)
        add("ifft", numbers(2, 6), norm=norm)
        add("rfft", numbers(2, 7, real=True), norm=norm)
        add("irfft", numbers(2, 4), n=7, norm=norm)
    add("fft", numbers(4, 5, 3), axis=1)
    add("ifft", numbers(4, 5, 3), axis=0, n=6)
    add("rfft", numbers(4, 5, 3, real=True), axis=0, n=3)
    add("irfft", numbers(4, 5, 3), axis=1, n=5)
    for op, real in (("fft2", False), ("ifft2", False), ("rfft2", True), ("irfft2", False)):
        add(op, numbers(2, 4, 5, real=real))
        add(op, numbers(4, 3, 5, real=real), axes=[2, 0], n=[4, 6], norm="ortho")
    for op, real in (("fftn", False), ("ifftn", False), ("rfftn", True), ("irfftn", False)):
        add(op, numbers(3, 4, 5, real=real))
        add(op, numbers(3, 4, 2, 5, real=real), axes=[1, 0, 3], norm="forward")
    for n in (6, 7, 13, 17):
        add_grad("fft", numbers(2, n))
        add_grad("ifft", numbers(2, n))
        add_grad("rfft", numbers(2, n, real=True))
        add_grad("irfft", numbers(2, n // 2 + 1), n=n)
    add_grad("fft", numbers(2, 6, real=True), n=9, norm="ortho")
    add_grad("irfft", numbers(2, 6), n=5, norm="forward")
    for n in (1, 2, 7, 8):
        add_plain("fftfreq", {"points": n}, {}, np.fft.fftfreq(n))
        add_plain("rfftfreq", {"points": n}, {}, np.fft.rfftfreq(n))
    x = numbers(4, 5, real=True)
    add_plain("fftshift", {}, {"x": x}, np.fft.fftshift(x))
    add_plain("ifftshift", {"axes": [1]}, {"x": x}, np.fft.ifftshift(x, [1]))
    x = numbers(2, 23, real=True)
    frames = np.stack([np.fft.rfft(x[:, i:i + 8]) for i in range(0, 16, 3)], 1)
    add_plain("stft", {"frame": 8, "hop": 3}, {"x": x}, frames)
    add_plain("psd", {}, {"x": x}, np.abs(np.fft.rfft(x)) ** 2 / 23)
    a, b = numbers(12, real=True), numbers(5, real=True)
    add_plain("fft_conv1d", {}, {"x": a, "b": b}, np.convolve(a, b))
    records.save()


if __name__ == "__main__":
    main()
