"""Networks with random weights for onnx_rates.py: functions that give a module and its inputs.

Sizes are those of the published networks; images have one element in the batch, texts 128 tokens,
sound a second.
"""
import torch
import torchvision
import transformers
from torch import nn


def conv(c_in, c_out, k, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(c_in, c_out, k, stride, k // 2, groups=groups, bias=False),
              nn.BatchNorm2d(c_out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.body = nn.Sequential(conv(c_in, c_out, 3, stride), conv(c_out, c_out, 3, act=None))
        same = stride == 1 and c_in == c_out
        self.skip = nn.Identity() if same else conv(c_in, c_out, 1, stride, act=None)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet18():
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
              (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *[Residual(*w) for w in widths],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Inverted(nn.Module):
    def __init__(self, c_in, c_out, stride, expand):
        super().__init__()
        wide = c_in * expand
        self.add = stride == 1 and c_in == c_out
        first = [conv(c_in, wide, 1, act=nn.ReLU6)] if expand > 1 else []
        self.body = nn.Sequential(*first, conv(wide, wide, 3, stride, wide, nn.ReLU6),
                                  conv(wide, c_out, 1, act=None))

    def forward(self, x):
        return x + self.body(x) if self.add else self.body(x)


def mobilenet():
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)]
    layers, c = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
    for expand, width, count, stride in rows:
        for i in range(count):
            layers.append(Inverted(c, width, stride if i == 0 else 1, expand))
            c = width
    return nn.Sequential(*layers, conv(c, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(1280, 1000))


class Unet(nn.Module):
    """Four levels of two convolutions, with skips."""

    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        pair = lambda i, o: nn.Sequential(conv(i, o, 3), conv(o, o, 3))
        self.down = nn.ModuleList(pair(i, o) for i, o in zip((3, *widths), widths))
        self.up = nn.ModuleList(pair(a + b, a) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.pool, self.wide = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.down):
            x = down(self.pool(x) if i else x)
            skips.append(x)
        for up, skip in zip(self.up, skips[-2::-1]):
            x = up(torch.cat([skip, self.wide(x)], 1))
        return self.last(x)


class Split(nn.Module):
    """Half of the channels go through bottlenecks, and all are joined, as in YOLO's newer forms."""

    def __init__(self, width, count):
        super().__init__()
        half = width // 2
        self.first = conv(width, width, 1, act=nn.SiLU)
        self.last = conv(half * (2 + count), width, 1, act=nn.SiLU)
        self.steps = nn.ModuleList(nn.Sequential(conv(half, half, 3, act=nn.SiLU),
                                                 conv(half, half, 3, act=nn.SiLU))
                                   for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A backbone of strided convolutions and splits, and heads of three sizes."""

    def __init__(self, widths=(16, 32, 64, 128, 256), classes=80):
        super().__init__()
        silu = dict(act=nn.SiLU)
        self.stem = conv(3, widths[0], 3, 2, **silu)
        self.stages = nn.ModuleList(
            nn.Sequential(conv(i, o, 3, 2, **silu), Split(o, 1 + (k in (1, 2))))
            for k, (i, o) in enumerate(zip(widths, widths[1:])))
        self.heads = nn.ModuleList(
            nn.Sequential(conv(w, 64, 3, **silu), nn.Conv2d(64, 4 + classes, 1))
            for w in widths[2:])

    def forward(self, x):
        x, found = self.stem(x), []
        for k, stage in enumerate(self.stages):
            x = stage(x)
            if k > 0:
                found.append(self.heads[k - 1](x).flatten(2))
        y = torch.cat(found, 2)
        return torch.cat([y[:, :4], y[:, 4:].sigmoid()], 1)


class First(nn.Module):
    """A model of transformers with its first result alone."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return self.model(**{self.name: x}, return_dict=True)[0]


def image(build, side=224):
    return lambda: (build(), torch.randn(1, 3, side, side))


def ids(build, name="input_ids"):
    return lambda: (First(build(), name), torch.randint(5, 1000, (1, 128)))


def minilm():
    return transformers.BertModel(transformers.BertConfig(
        vocab_size=1000, hidden_size=384, num_hidden_layers=6, intermediate_size=1536))


def bert_base():
    return transformers.BertModel(transformers.BertConfig(vocab_size=1000))


def t5():
    return transformers.T5EncoderModel(transformers.T5Config(vocab_size=1000))


def wav2vec2():
    return First(transformers.Wav2Vec2Model(transformers.Wav2Vec2Config()), "input_values"), \
        torch.randn(1, 16000)


NETWORKS = {
    "resnet18": image(resnet18), "mobilenetv2": image(mobilenet),
    "mobilenetv3": image(torchvision.models.mobilenet_v3_large),
    "efficientnet-b0": image(torchvision.models.efficientnet_b0), "unet": image(Unet, 256),
    "yolo-like": image(Yolo, 320), "bert-base": ids(bert_base), "minilm": ids(minilm),
    "t5-small": ids(t5), "wav2vec2": wav2vec2,
}
