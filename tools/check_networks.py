#!/usr/bin/env python3
"""Networks as torch, onnxruntime's quantisation and scikit-learn export them, in three sizes each:
mica beside onnxruntime.

  tools/check_networks.py MICA [--only REGEX] [--form old|new|dynamic|qdq|qoperator|sklearn|all]
                          [--list]

Needs the Python packages torch, torchvision, transformers, onnx, onnxscript, onnxruntime,
scikit-learn and skl2onnx; 77 without. Weights are random, or trained on random numbers. Each
network is exported with lengths that vary, by torch's both exporters, and becomes one program; it
runs at three sizes. Five of them run as onnxruntime.quantization writes them, too. A line a case;
the last one is "N agree, N differ, N are not exported". What torch or onnxruntime cannot do is not
counted against mica. Returns 1 if a case differs.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnxruntime
    import skl2onnx
    import sklearn.base
    import torch
    import torchvision
    import transformers
    from onnxruntime import quantization
    from sklearn import cluster, ensemble, linear_model, neighbors, neural_network, pipeline
    from sklearn import preprocessing, svm
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FORMS = ("old", "new", "dynamic", "qdq", "qoperator", "sklearn")
RTOL = 2e-3  # of the largest value: sums of thousands of products, in another order
RTOL_INT8 = 3e-2  # where a sum lies between two steps, the one or the other is taken


class First(torch.nn.Module):
    """A model of transformers with the tensor that it computes alone."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        given = dict(zip(self.names, inputs))
        return self.model(**given, return_dict=True)[0]


def images(*sizes, batches=(1, 2, 3)):
    return [(torch.randn(b, 3, h, w),) for b, (h, w) in zip(batches, sizes)]


def ids(*lengths, vocabulary=100, mask=True):
    sets = []
    for i, n in enumerate(lengths):
        x = torch.randint(5, vocabulary, (i + 1, n))
        sets.append((x, torch.ones_like(x)) if mask else (x,))
    return sets


SIZES = ((64, 64), (96, 64), (64, 128))
IMAGE_AXES = [{0: "batch", 2: "height", 3: "width"}]
BATCH_AXES = [{0: "batch"}]
TEXT_AXES = [{0: "batch", 1: "length"}, {0: "batch", 1: "length"}]
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
             vocab_size=100, max_position_embeddings=64)


def vision(build, axes=IMAGE_AXES, sizes=SIZES):
    return lambda: (build(weights=None), images(*sizes), axes)


def text(config, model, **more):
    def make():
        c = config(**{**SMALL, **more})
        return First(model(c), "input_ids", "attention_mask"), ids(7, 12, 33), TEXT_AXES
    return make


def vit():
    c = transformers.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                               intermediate_size=64, image_size=32, patch_size=8)
    return (First(transformers.ViTModel(c), "pixel_values"), images((32, 32), (32, 32), (32, 32)),
            BATCH_AXES)


def clip_text():
    c = transformers.CLIPTextConfig(**SMALL, eos_token_id=99, bos_token_id=98)
    model = First(transformers.CLIPTextModel(c), "input_ids")
    return model, ids(7, 12, 33, mask=False), TEXT_AXES[:1]


def t5():
    c = transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                              vocab_size=100)
    return (First(transformers.T5EncoderModel(c), "input_ids", "attention_mask"), ids(7, 12, 33),
            TEXT_AXES)


def whisper_config():
    return transformers.WhisperConfig(d_model=32, encoder_layers=2, decoder_layers=2,
                                   encoder_attention_heads=4, decoder_attention_heads=4,
                                   encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100,
                                   max_source_positions=50, num_mel_bins=16, pad_token_id=0,
                                   bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)


def whisper_encoder():
    sets = [(torch.randn(b, 16, 100),) for b in (1, 2, 3)]
    return First(transformers.WhisperModel(whisper_config()).encoder, "input_features"), sets, BATCH_AXES


class WhisperDecoder(torch.nn.Module):
    """The decoder's hidden states of tokens and what the encoder gave."""

    def __init__(self):
        super().__init__()
        self.decoder = transformers.WhisperModel(whisper_config()).decoder

    def forward(self, tokens, encoded):
        return self.decoder(input_ids=tokens, attention_mask=torch.ones_like(tokens),
                            encoder_hidden_states=encoded, use_cache=False)[0]


def whisper_decoder():
    sets = [(torch.randint(3, 100, (b, n)), torch.randn(b, m, 32))
            for b, n, m in ((1, 4, 50), (2, 9, 40), (3, 17, 50))]
    return WhisperDecoder(), sets, [{0: "batch", 1: "tokens"}, {0: "batch", 1: "frames"}]


def wav2vec2():
    c = transformers.Wav2Vec2Config(**SMALL, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2),
                                    conv_kernel=(10, 3, 3), num_feat_extract_layers=3,
                                    num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
    sets = [(torch.randn(b, n),) for b, n in ((1, 800), (2, 1111), (3, 1600))]
    return (First(transformers.Wav2Vec2Model(c), "input_values"), sets,
            [{0: "batch", 1: "samples"}])


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(8, 16, num_layers=2, bidirectional=True)

    def forward(self, x):
        return self.layer(x)[0]


def recurrent(kind):
    def make():
        sets = [(torch.randn(n, b, 8),) for n, b in ((5, 1), (9, 2), (20, 3))]
        return Recurrent(kind), sets, [{0: "length", 1: "batch"}]
    return make


class Unet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        conv = lambda i, o: torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, padding=1),
                                                torch.nn.BatchNorm2d(o), torch.nn.SiLU())
        self.a, self.b, self.c = conv(3, 8), conv(8, 16), conv(24, 8)
        self.up = torch.nn.Upsample(scale_factor=2, mode="bilinear")
        self.pool = torch.nn.MaxPool2d(2)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.pool(a))
        return self.c(torch.cat([a, self.up(b)], 1))


def unet():
    return Unet(), images(*SIZES), IMAGE_AXES


class Detector(torch.nn.Module):
    """Boxes of a grid, of which those that do not overlap are left."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Conv2d(3, 16, 3, stride=8, padding=1)
        self.head = torch.nn.Conv2d(16, 5, 1)

    def forward(self, x):
        y = self.head(torch.relu(self.features(x))).flatten(2)[0].t()
        boxes = torch.cat([y[:, :2], y[:, :2] + torch.exp(y[:, 2:4])], 1)
        keep = torchvision.ops.nms(boxes, y[:, 4].sigmoid(), 0.5)
        return boxes[keep], y[:, 4][keep]


def detector():
    return Detector(), images(*SIZES, batches=(1, 1, 1)), [{2: "height", 3: "width"}]


class FasterRcnn(torch.nn.Module):
    """Torchvision's detector of one image: boxes, labels, scores."""

    def __init__(self):
        super().__init__()
        self.model = models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
            weights=None, weights_backbone=None, min_size=96, max_size=160, box_score_thresh=0.005,
            num_classes=5)

    def forward(self, image):
        found = self.model([image])[0]
        return found["boxes"], found["labels"], found["scores"]


def faster_rcnn():
    return (FasterRcnn(), [(torch.rand(3, h, w),) for h, w in ((96, 96), (120, 96), (100, 150))],
            [{1: "height", 2: "width"}])


models = torchvision.models
CASES = {
    "resnet18": vision(models.resnet18), "mobilenet_v3": vision(models.mobilenet_v3_small),
    "efficientnet": vision(models.efficientnet_b0), "convnext": vision(models.convnext_tiny),
    "swin": vision(models.swin_t, BATCH_AXES, ((64, 64),) * 3), "vit": vit, "clip_text": clip_text,
    "bert": text(transformers.BertConfig, transformers.BertModel),
    "distilbert": text(transformers.DistilBertConfig, transformers.DistilBertModel, dim=32,
                       n_layers=2, n_heads=4, hidden_dim=64),
    "deberta": text(transformers.DebertaV2Config, transformers.DebertaV2Model,
                    relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "t5": t5, "whisper_encoder": whisper_encoder,
    "whisper_decoder": whisper_decoder, "wav2vec2": wav2vec2,
    "lstm": recurrent(torch.nn.LSTM), "gru": recurrent(torch.nn.GRU), "unet": unet,
    "detector": detector, "faster_rcnn": faster_rcnn,
}
QUANTISED = ("resnet18", "mobilenet_v3", "bert", "vit", "lstm")

LEARNED = {  # of scikit-learn
    "logistic_regression": linear_model.LogisticRegression(),
    "scaled_svc": pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC()),
    "linear_regression": pipeline.make_pipeline(preprocessing.MinMaxScaler(),
                                                linear_model.LinearRegression()),
    "random_forest": ensemble.RandomForestClassifier(n_estimators=10, random_state=1),
    "gradient_boosting": ensemble.GradientBoostingRegressor(n_estimators=20, random_state=1),
    "neighbours": neighbors.KNeighborsClassifier(),
    "kmeans": cluster.KMeans(3, n_init=1, random_state=1),
    "mlp": neural_network.MLPClassifier((8,), max_iter=20, random_state=1),
}


def export(model, example, axes, new, path):
    names = [f"x{i}" for i in range(len(example))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if new:
            shapes = [{k: torch.export.Dim.DYNAMIC for k in a} for a in axes]
            if isinstance(model, First):
                shapes = (tuple(shapes),)  # of *inputs
            torch.onnx.export(model, example, path, input_names=names, dynamic_shapes=shapes,
                              dynamo=True, external_data=False, verbose=False)
        else:
            torch.onnx.export(model, example, path, input_names=names, dynamo=False,
                              dynamic_axes=dict(zip(names, axes)), opset_version=17)


class Reader(quantization.CalibrationDataReader):
    """Sets of inputs, once."""

    def __init__(self, sets):
        self.left = [{f"x{i}": x.numpy() for i, x in enumerate(values)} for values in sets]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantise(form, sets, path):
    """The network of a file as bytes. Weights have 7 bits: products of 8 saturate in onnxruntime
    where a processor lacks an instruction, and are right in mica."""
    whole = f"{path}.whole.onnx"
    quantization.quant_pre_process(path, whole, skip_symbolic_shape=True)
    if form == "dynamic":
        return quantization.quantize_dynamic(whole, path, reduce_range=True)
    format = quantization.QuantFormat.QDQ if form == "qdq" else quantization.QuantFormat.QOperator
    quantization.quantize_static(whole, path, Reader(sets), quant_format=format, reduce_range=True)


def learn(name, path):
    """A model of scikit-learn, trained on random numbers; returns sets of rows."""
    random = numpy.random.default_rng(54)
    x = random.normal(size=(200, 6)).astype("f4")
    y = x[:, 0] + numpy.sin(3 * x[:, 1])
    model = LEARNED[name]
    model.fit(x, y if sklearn.base.is_regressor(model) else (y * 2).round().clip(-1, 1).astype("i8"))
    types = [("x0", skl2onnx.common.data_types.FloatTensorType([None, 6]))]
    options = {"zipmap": False} if sklearn.base.is_classifier(model) else None
    made = skl2onnx.to_onnx(model, initial_types=types, options=options, target_opset=17)
    pathlib.Path(path).write_bytes(made.SerializeToString())
    return [(torch.from_numpy(random.normal(size=(n, 6)).astype("f4")),) for n in (1, 7, 50)]


def make(name, form, path):
    """Writes a case's file; returns its sets of inputs."""
    if form == "sklearn":
        return learn(name, path)
    model, sets, axes = CASES[name]()
    model.eval()
    export(model, sets[1], axes, form == "new", path)
    if form not in ("old", "new"):
        quantise(form, sets, path)
    return sets


def run(mica, program, feeds, work):
    numpy.savez(f"{work}/in.npz", **feeds)
    done = subprocess.run([mica, "program", "run", program, "--input", f"{work}/in.npz", "-o",
                           f"{work}/out.npz"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(" ".join(done.stderr.split()))
    return numpy.load(f"{work}/out.npz")


def compare(want, got, rtol):
    if want.shape != got.shape:
        return f"{got.shape} where {want.shape} is expected"
    if want.size == 0:
        return None
    apart = numpy.abs(want.astype("f8") - got.astype("f8")).max()
    limit = rtol * max(1e-3, numpy.abs(want).max())
    return None if apart <= limit else f"differs by {apart:.3g}, of {numpy.abs(want).max():.3g}"


def check(mica, name, form):
    """Returns ("agrees" | "differs" | "not exported", why)."""
    torch.manual_seed(54)
    rtol = RTOL if form in ("old", "new", "sklearn") else RTOL_INT8
    with tempfile.TemporaryDirectory() as work:
        path, program = f"{work}/net.onnx", f"{work}/net.mica"
        try:
            sets = make(name, form, path)
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(path, options)
        except Exception as error:
            return "not exported", " ".join(str(error).split())[:200]
        done = subprocess.run([mica, "convert", path, program], capture_output=True, text=True)
        if done.returncode != 0:
            return "differs", " ".join(done.stderr.split())
        inputs = [i.name for i in session.get_inputs()]
        for at, values in enumerate(sets):
            feeds = {k: v.numpy() for k, v in zip(inputs, values)}
            try:
                want = session.run(None, feeds)
            except Exception as error:
                return "not exported", f"size {at + 1}: " + " ".join(str(error).split())[:150]
            try:
                got = run(mica, program, feeds, work)
            except Exception as error:
                return "differs", f"size {at + 1}: {error}"
            for output, x in zip(session.get_outputs(), want):
                why = compare(x, got[output.name], rtol)
                if why:
                    return "differs", f"size {at + 1}, {output.name}: {why}"
    return "agrees", ""


def cases():
    for name in CASES:
        yield name, "old"
        yield name, "new"
    for name in QUANTISED:
        for form in ("dynamic", "qdq", "qoperator"):
            yield name, form
    for name in LEARNED:
        yield name, "sklearn"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mica", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--form", choices=(*FORMS, "all"), default="all")
    parser.add_argument("--list", action="store_true", help="print the cases")
    args = parser.parse_args()
    counts = {"agrees": 0, "differs": 0, "not exported": 0}
    for name, form in cases():
        if not re.search(args.only, name) or args.form not in (form, "all"):
            continue
        if args.list:
            print(f"{name}, {form}")
            continue
        result, why = check(args.mica.resolve(), name, form)
        counts[result] += 1
        print(f"{name}, {form}: {result}{': ' if why else ''}{why}", flush=True)
    print(f"{counts['agrees']} agree, {counts['differs']} differ, "
          f"{counts['not exported']} are not exported")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
