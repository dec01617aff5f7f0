"""Records of functions of PyTorch, with their gradients."""
import torch

from nn_goldens import Records


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32)


def f32(x):
    return x.detach().to(torch.float32).numpy()


class TorchRecords(Records):
    def check(self, op, args, f, inputs, gradients=True):
        """f(inputs...) in f64, one result or two, and gradients. inputs by name; floats are f32."""
        wide = {name: x.double().requires_grad_(gradients) if x.is_floating_point() else x
                for name, x in inputs.items()}
        ys = f(**wide)
        ys = ys if isinstance(ys, tuple) else (ys,)
        stored = {name: x.numpy() for name, x in inputs.items()}
        outputs = [f32(y) for y in ys]
        if gradients:
            dys = [torch.randn(y.shape, dtype=torch.float32) for y in ys]
            floats = [x for x in wide.values() if x.is_floating_point()]
            found = torch.autograd.grad(ys, floats, [dy.double() for dy in dys],
                                        allow_unused=True)
            outputs += [f32(torch.zeros_like(x) if dx is None else dx)
                        for x, dx in zip(floats, found)]
            stored |= {name: dy.numpy() for name, dy in zip(("dy", "dlast"), dys)}
        self.add(op, args, stored, outputs)
