"""Export small and usual networks as ONNX without their weights, and count them with PyTorch.

Run as ``python -m roofsim_evidence.exports.make_onnx``.
Needs torch, torchvision, transformers, timm, onnx and onnxscript; the tests and roofsim need none of them but onnx. Writes a
compressed file of each network and its row of `counts.csv`: parameters, batch norms folded
into convolutions as the exporters do, and what `FlopCounterMode` counts of a forward pass.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple

import onnx
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from roofsim_evidence.exports.make_counts import HOME, written

#: Bytes of a tensor that the file keeps.
KEPT: Final = 1024


class Net(NamedTuple):
    """A network: how it is made, what it is called with at a batch and a length, its open axes, and how it is exported."""

    make: Any
    inputs: Any
    axes: Any
    length: int = 224
    batch: int = 2
    dynamo: bool = False
    opset: int = 17
    prepare: Any = None


def vision(name: str, **fields: Any) -> Net:
    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **fields)

    return Net(make, lambda b, n: (torch.randn(b, 3, n, n),), [{0: "batch"}])


def of_timm(name: str) -> Net:
    def make() -> Any:
        import timm

        timm.layers.set_fused_attn(False)
        return timm.create_model(name, pretrained=False)

    return Net(make, lambda b, n: (torch.randn(b, 3, n, n),), [{0: "batch"}])


class FirstOf(nn.Module):
    """A language model that gives its first result."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        return self.model(input_ids=ids, return_dict=False, use_cache=False)[0]


class Encoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any) -> Any:
        return self.model(input_ids=ids, attention_mask=mask, return_dict=False)[0]


def language(config: str, model: str, *, encoder: bool = False, length: int = 128, **fields: Any) -> Net:
    def make() -> Any:
        import transformers

        made = getattr(transformers, config)(**fields)
        made._attn_implementation = "eager"
        return (Encoder if encoder else FirstOf)(getattr(transformers, model)(made))

    def inputs(batch: int, length: int) -> Any:
        ids = torch.randint(0, 100, (batch, length))
        return (ids, torch.ones_like(ids)) if encoder else (ids,)

    return Net(make, inputs, [{0: "batch", 1: "sequence"}] * (2 if encoder else 1), length)


class Recurrent(nn.Module):
    def __init__(self, cell: str) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.cells = getattr(nn, cell)(64, 128, 2, batch_first=True, bidirectional=cell == "LSTM")
        self.head = nn.Linear(256 if cell == "LSTM" else 128, 10)

    def forward(self, ids: Any) -> Any:
        return self.head(self.cells(self.table(ids))[0])


class Detector(nn.Module):
    """A backbone with a pyramid of features, upsampled and added, and heads over three levels."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64, 128)
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.SiLU())
            for a, b in zip((3, *widths), (*widths, 128), strict=False)
        )
        self.sides = nn.ModuleList(nn.Conv2d(w, 64, 1) for w in (64, 128, 128))
        self.heads = nn.Conv2d(64, 9 * 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        out, top = [], None
        for side, level in zip(reversed(self.sides), reversed(levels[-3:]), strict=True):
            y = side(level)
            top = y if top is None else y + nn.functional.interpolate(top, scale_factor=2.0, mode="nearest")
            out.append(self.heads(top).flatten(2))
        scores = torch.sigmoid(torch.cat(out, 2)).amax(1)
        return torch.topk(scores, 100)[0]


class Summed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16, 32))

    def forward(self, x: Any) -> Any:
        return torch.einsum("bnd,hde->bhne", x, self.weight).softmax(-1)


GPT: Final[dict[str, Any]] = {"n_embd": 768, "n_layer": 12, "n_head": 12}
NETS: Final[dict[str, Net]] = {
    "resnet18": vision("resnet18"),
    "resnet50": vision("resnet50"),
    "resnet50-dynamo": vision("resnet50")._replace(dynamo=True, opset=20),
    "vgg16": vision("vgg16"),
    "mobilenet-v2": vision("mobilenet_v2"),
    "efficientnet-b0": vision("efficientnet_b0"),
    "densenet121": vision("densenet121"),
    "convnext-tiny": vision("convnext_tiny"),
    "deit-tiny": of_timm("deit_tiny_patch16_224"),
    "bert-base": language("BertConfig", "BertForMaskedLM", encoder=True),
    "bert-base-dynamo": language("BertConfig", "BertForMaskedLM", encoder=True)._replace(dynamo=True, opset=20),
    "gpt2": language("GPT2Config", "GPT2LMHeadModel", **GPT)._replace(dynamo=True, opset=20),
    "llama-dynamo": language(
        "LlamaConfig", "LlamaForCausalLM", hidden_size=256, intermediate_size=704, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, vocab_size=2000,
    )._replace(dynamo=True, opset=20),
    "lstm": Net(lambda: Recurrent("LSTM"), lambda b, n: (torch.randint(0, 100, (b, n)),), [{0: "batch", 1: "sequence"}], 32),
    "gru": Net(lambda: Recurrent("GRU"), lambda b, n: (torch.randint(0, 100, (b, n)),), [{0: "batch"}], 32),
    "detector": Net(Detector, lambda b, n: (torch.randn(b, 3, n, n),), [{0: "batch", 2: "height", 3: "width"}]),
    "einsum": Net(Summed, lambda b, n: (torch.randn(b, n, 16),), [{0: "batch", 1: "sequence"}], 32),
}  # fmt: skip


def stripped(model: Any) -> Any:
    """Return a model without weights and without what exporters note beside the modules' paths."""
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > KEPT or tensor.external_data:
            tensor.ClearField("raw_data")
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights.bin")
        del tensor.metadata_props[:]
    for node in model.graph.node:
        node.ClearField("doc_string")
        kept = [each.value for each in node.metadata_props if each.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        for value in kept:
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=value)
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    for info in (*model.graph.input, *model.graph.output):
        del info.metadata_props[:]
    return model


def counted(module: Any, given: Any) -> tuple[int, int]:
    """Return parameters, and FLOPs of a forward pass."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), counter:  # whose LSTM is one op
        module(*given)
    return sum(parameter.numel() for parameter in folded(module).parameters()), counter.get_total_flops()


def folded(module: Any) -> Any:
    """Return a module with batch norms folded into the convolutions before them, as exporters do; others as they are."""
    from torch.fx.experimental.optimization import fuse

    if not any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules()):
        return module
    return fuse(module)


def exported(net: Net, module: Any, given: Any, path: Path) -> None:
    """Write the ONNX file of a module."""
    if net.dynamo:
        shapes = tuple({at: torch.export.Dim(name) for at, name in axes.items()} for axes in net.axes)
        torch.onnx.export(
            module, given, str(path), dynamo=True, dynamic_shapes=shapes, opset_version=net.opset, verbose=False
        )
        return
    names = [f"input{at}" for at in range(len(given))]
    axes = dict(zip(names, net.axes, strict=True))
    torch.onnx.export(
        module, given, str(path), dynamo=False, input_names=names, dynamic_axes=axes, opset_version=net.opset
    )


def made(name: str, home: Path = HOME) -> dict[str, Any]:
    """Export a network, write its file into a folder, and return its row."""
    net = NETS[name]
    torch.manual_seed(0)
    module = net.make().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()  # exporters share equal weights, such as biases of zero
    given = net.inputs(net.batch, net.length)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        exported(net, module, given, path)
        model = stripped(onnx.load(str(path), load_external_data=False))
    with (home / f"{name}.onnx.gz").open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(model.SerializeToString(deterministic=True))
    parameters, flops = counted(module, given)
    maker = f"torch {torch.__version__}, opset {net.opset}, {'dynamo' if net.dynamo else 'TorchScript'}"
    row = {
        "name": name,
        "form": "onnx",
        "counted_in": "images" if net.length == 224 else "tokens",
        "batch": net.batch,
        "length": net.length,
        "parameters": parameters,
        "flops": flops,
    }
    return row | {"made_by": maker}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in sys.argv[1:] or NETS:
        try:
            written([made(each)])
            print(each, (HOME / f"{each}.onnx.gz").stat().st_size)
        except Exception as error:
            print(f"{each}: {type(error).__name__}: {str(error)[:400]}")
