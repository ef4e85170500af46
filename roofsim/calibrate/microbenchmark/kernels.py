"""What is measured: the calls, their sizes, and how the budget is shared among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from roofsim.calibrate.microbenchmark.timing import COLUMNS, DTYPES, Bench, Workpiece

#: Group -> kernels of a scenario, which are measured instead of the usual ones: what they are, arguments, facts of the row.
ASKED: dict[str, list[tuple[str, list[Any], dict[str, object]]]] = {}
SQUARES = (128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
#: Weights [n, k] of linear layers, and rows m against them, from decoding to training; sizes that 16 does not divide.
WEIGHTS = ((768, 768), (3072, 768), (4096, 4096), (14336, 4096), (4096, 14336))
ROWS = (1, 8, 32, 128, 512, 2048, 8192)
ODD = ((2048, 50257, 768), (256, 1000, 2048), (2047, 2047, 2047))
BATCHED = ((192, 512, 512, 64), (192, 512, 64, 512), (64, 2048, 2048, 128), (4096, 49, 49, 32), (32, 1, 2048, 128))
#: batch, heads, key-value heads, head size, length.
PREFILL = (
    (8, 12, 12, 64, 128),
    (8, 12, 12, 64, 512),
    (16, 16, 16, 64, 512),
    (4, 12, 12, 64, 1024),
    (1, 32, 32, 128, 2048),
    (1, 32, 8, 128, 2048),
    (4, 32, 8, 128, 2048),
    (1, 32, 8, 128, 8192),
    (1, 8, 1, 256, 2048),
)
DECODE = (
    (1, 32, 32, 128, 1024),
    (1, 32, 8, 128, 1024),
    (1, 32, 8, 128, 8192),
    (8, 32, 8, 128, 2048),
    (32, 32, 8, 128, 512),
    (32, 32, 8, 128, 4096),
    (64, 32, 32, 128, 1024),
    (128, 12, 12, 64, 512),
)
#: Kernels of scaled_dot_product_attention that are measured by name (torch.nn.attention.SDPBackend), beside its choice.
BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
#: batch, input channels, side of the image, output channels, side of the kernel, stride, padding, groups.
CONVOLUTIONS = (
    (32, 3, 224, 64, 7, 2, 3, 1),
    (32, 64, 56, 64, 3, 1, 1, 1),
    (32, 256, 56, 64, 1, 1, 0, 1),
    (32, 128, 28, 128, 3, 1, 1, 1),
    (32, 256, 14, 1024, 1, 1, 0, 1),
    (32, 512, 7, 512, 3, 1, 1, 1),
    (32, 256, 56, 512, 1, 2, 0, 1),
    (4, 256, 14, 256, 3, 1, 1, 1),
    (32, 96, 112, 96, 3, 2, 1, 96),
    (32, 384, 14, 384, 3, 1, 1, 384),
    (32, 96, 56, 96, 7, 1, 3, 96),
)
TABLES = ((512, 768), (4096, 1024), (8192, 4096), (65536, 1024))
IMAGES = ((32, 64, 112), (32, 256, 56), (32, 2048, 7))
#: Name: op of the row, inputs, the call on x, y, vectors (weight, bias) and torch.nn.functional; whether backward too.
FUNCTIONS: dict[str, tuple[str, int, Callable[[Any, Any, Any, Any], Any], bool]] = {
    "add": ("elementwise", 2, lambda x, y, _v, _f: x + y, False),
    "relu": ("elementwise", 1, lambda x, _y, _v, f: f.relu(x), False),
    "gelu": ("elementwise", 1, lambda x, _y, _v, f: f.gelu(x), True),
    "ln": ("layernorm", 1, lambda x, _y, v, f: f.layer_norm(x, v[0].shape, *v), True),
    "rms": ("rmsnorm", 1, lambda x, _y, v, f: f.rms_norm(x, v[0].shape, v[0]), True),
    "softmax": ("softmax", 1, lambda x, _y, _v, f: f.softmax(x, -1), True),
    "dropout": ("dropout", 1, lambda x, _y, _v, f: f.dropout(x, 0.1, True), True),
}
#: Vectors that an op of the table reads and makes a gradient of.
VECTORS = {"ln": 2, "rms": 1}


def asked(group: str, makers: dict[str, Callable[..., Workpiece]]) -> Iterator[Workpiece]:
    """Yield the kernels of a scenario."""
    for kind, arguments, facts in ASKED[group]:
        yield makers[kind](*arguments).told(facts)


def launches(bench: Bench) -> Iterator[Workpiece]:
    """Yield what a launch takes, on the device and on the host, with kernels that do nearly nothing."""
    torch, count = bench.torch, 200
    one, small, weight = (bench.random("fp32", *shape) for shape in ((1,), (8, 64), (64, 64)))
    functional, vector = torch.nn.functional, bench.random("fp32", 64)

    def repeated(call: Callable[[], object]) -> Callable[[], object]:
        return lambda: [call() for _ in range(count)]

    def with_backward() -> object:
        with torch.enable_grad():
            return torch.autograd.grad(functional.linear(small, leaf).sum(), leaf)

    def graph() -> Callable[[], object]:
        one.add_(1)  # loads the kernel, which a recording must not
        torch.cuda.synchronize()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            repeated(lambda: one.add_(1))()
        return recorded.replay  # type: ignore[no-any-return]

    leaf = weight.clone().requires_grad_()
    calls: dict[str, Callable[[], object]] = {
        "add_": lambda: one.add_(1),
        "add": lambda: one + 1,
        "layer_norm": lambda: functional.layer_norm(small, (64,), vector, vector),
        "linear": lambda: functional.linear(small, weight),
        "linear, sum and their backward": with_backward,
    }
    if bench.cuda:
        gap: dict[str, Any] = {"op": "launch_gap", "dtype": "fp32", "sizes": {}, "work": 1.0, "cold": False}
        yield Workpiece(**gap, other={"variant": "event_pair"}, make=lambda: lambda: None)
        yield Workpiece(**gap, other={"variant": "graph"}, make=graph, calls=count)
        yield Workpiece(**gap, other={"variant": "eager"}, make=lambda: repeated(lambda: one.add_(1)), calls=count)
    for name, call in calls.items():
        other: dict[str, object] = {"call": name}
        yield Workpiece("host_issue", "fp32", {}, other, partial(repeated, call), 1.0, 0, False, count, "issue")


def streams(bench: Bench) -> Iterator[Workpiece]:
    """Yield copies, additions, reads and writes of growing size; where the caches hold them, warm too."""
    torch = bench.torch

    def case(kind: str, passes: int, size: int, cold: bool) -> Workpiece:
        def make() -> Callable[[], object]:
            a, b, c = (torch.ones(size, device=bench.device) for _ in range(3))
            calls: dict[str, Callable[[], object]] = {
                "copy": lambda: b.copy_(a),
                "triad": lambda: torch.add(a, b, alpha=3.0, out=c),
                "read": a.sum,
                "write": lambda: c.fill_(1.0),
            }
            return calls[kind]

        other: dict[str, object] = {"fn": kind, "bytes": 4 * passes * size}
        return Workpiece("stream", "fp32", {"m": 1, "n": size}, other, make, 4 * passes * size, 12 * size, cold)

    for power in range(14, 30, 2):
        for kind, passes in (("copy", 2), ("triad", 3), ("read", 1), ("write", 1)):
            for cold in (True, False) if bench.cuda and 12 * 2**power < bench.cache else (True,):
                yield case(kind, passes, 2**power, cold)


def copies(bench: Bench) -> Iterator[Workpiece]:
    """Yield copies between host and device, and between devices."""
    torch, device = bench.torch, bench.device

    def case(op: str, size: int, other: dict[str, object], source: Any, target: Any, pinned: bool) -> Workpiece:
        def make() -> Callable[[], object]:
            places = [(place, pinned and place == "cpu") for place in (source, target)]
            a, b = (torch.ones(size, dtype=torch.uint8, device=place, pin_memory=pin) for place, pin in places)
            return lambda: b.copy_(a, non_blocking=pinned)

        clock = "device" if pinned else "wall"
        return Workpiece(op, "uint8", {"m": 1, "n": size}, other, make, size, 2 * size, False, clock=clock)

    for size in (2**12, 2**16, 2**20, 2**24, 2**28) if bench.cuda else ():
        for pinned in (True, False):
            yield case("copy_h2d", size, {"pinned": int(pinned)}, "cpu", device, pinned)
            yield case("copy_d2h", size, {"pinned": int(pinned)}, device, "cpu", pinned)
        for peer in range(torch.cuda.device_count()):
            if peer != device.index:
                direct = torch.cuda.can_device_access_peer(device.index, peer)
                other = {"from": device.index, "to": peer, "direct": int(direct)}
                yield case("copy_peer", size, other, device, torch.device("cuda", peer), True)


def gemms(bench: Bench) -> Iterator[Workpiece]:
    """Yield matrix products: squares, linear layers, the two of backward, odd sizes, batches, one under lasting load."""
    torch = bench.torch

    def case(dtype: str, m: int, n: int, k: int, order: str = "mk nk", seconds: float = 0.0) -> Workpiece:
        def make() -> Callable[[], object]:
            a, b = (bench.random(dtype, *(sizes[letter] for letter in side)) for side in order.split())
            a, b = a if order[0] == "m" else a.t(), b if order[3] == "k" else b.t()
            if dtype != "fp8":
                return lambda: torch.mm(a, b)
            one = torch.ones((), device=bench.device)
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

        sizes = {"m": m, "n": n, "k": k}
        other: dict[str, object] = {"a": order[:2], "b": order[3:], **({"variant": "sustained"} if seconds else {})}
        memory = 4.0 * (m * k + k * n) + DTYPES[dtype][0] * (m * k + k * n + m * n)
        cold = min(m, n) <= 512  # limited by bandwidth
        return Workpiece("gemm", dtype, sizes, other, make, 2.0 * m * n * k, memory, cold, seconds=seconds)

    def batched(dtype: str, batch: int, m: int, n: int, k: int) -> Workpiece:
        def make() -> Callable[[], object]:
            a, b = bench.random(dtype, batch, m, k), bench.random(dtype, batch, k, n)
            return lambda: torch.bmm(a, b)

        memory = 2.0 * DTYPES[dtype][0] * batch * (m * k + k * n + m * n)
        return Workpiece(
            "bmm", dtype, {"m": m, "n": n, "k": k, "batch": batch}, {}, make, 2.0 * batch * m * n * k, memory
        )

    if "gemm" in ASKED:
        yield from asked("gemm", {"gemm": case, "bmm": batched})
        return
    for dtype in bench.dtypes(*DTYPES):
        shapes = [(m, n, k) for n, k in WEIGHTS for m in ROWS] + [(size, size, size) for size in SQUARES]
        yield from (case(dtype, *shape) for shape in shapes)
        if dtype != "fp8":  # which has one layout, and sizes that 16 divides
            yield from (case(dtype, *shape) for shape in ODD)
            yield from (case(dtype, 4096, 4096, 4096, order) for order in ("mk kn", "km kn"))
            yield from (batched(dtype, *shape) for shape in BATCHED)
        if bench.cuda:
            yield case(dtype, 8192, 8192, 8192, seconds=2.0)


def attentions(bench: Bench) -> Iterator[Workpiece]:
    """Yield scaled_dot_product_attention: prefill with a causal mask, its backward, its backends, and decoding."""
    attend = bench.torch.nn.functional.scaled_dot_product_attention

    def case(
        dtype: str,
        shape: tuple[int, ...],
        decode: bool = False,
        way: str = "fwd",
        ks: str = "sdpa",
        causal: bool = True,
    ) -> Workpiece:
        batch, heads, kv_heads, size, length = shape
        masked = causal and not decode
        queries = 1 if decode else length

        def make() -> Callable[[], object]:
            sides = ((heads, queries), (kv_heads, length), (kv_heads, length))
            q, k, v = (bench.random(dtype, batch, side, rows, size) for side, rows in sides)
            options = {"is_causal": masked, **({} if heads == kv_heads else {"enable_gqa": True})}

            def with_backend() -> object:
                attention = bench.torch.nn.attention
                with attention.sdpa_kernel(getattr(attention.SDPBackend, ks)):
                    return attend(q, k, v, **options)

            return bench.either(way, with_backend if ks in BACKENDS else lambda: attend(q, k, v, **options), q, k, v)

        sizes = dict(zip(COLUMNS[6:12], (batch, heads, kv_heads, size, queries, length), strict=True))
        pairs = batch * heads * (length * (length + 1) / 2 if masked else queries * length)
        memory = 8.0 * DTYPES[dtype][0] * batch * (heads * queries + 2 * kv_heads * length) * size
        other: dict[str, object] = {"causal": int(causal), "window": 0, "ks": ks, "dir": way}
        work = 4.0 * pairs * size * (1.0 if way == "fwd" else 2.5)
        return Workpiece(f"attention_{'decode' if decode else 'prefill'}", dtype, sizes, other, make, work, memory)

    if "attention" in ASKED:
        yield from asked("attention", {"attention": case})
        return
    for dtype in bench.dtypes("fp32", "fp16", "bf16"):
        yield from (case(dtype, shape, way=way) for shape in PREFILL for way in ("fwd", "bwd"))
        yield from (case(dtype, shape, decode=True) for shape in DECODE)
        if bench.cuda:
            yield from (case(dtype, PREFILL[2], way=way, ks=name) for name in BACKENDS for way in ("fwd", "bwd"))


def convolutions(bench: Bench) -> Iterator[Workpiece]:
    """Yield convolutions in both layouts: forward, and backward to the image and to the weight."""
    torch = bench.torch

    def case(dtype: str, shape: tuple[int, ...], layout: str, direction: str) -> Workpiece:
        batch, cin, side, cout, kernel, stride, pad, groups = shape
        out = (side + 2 * pad - kernel) // stride + 1

        def make() -> Callable[[], object]:
            order = torch.channels_last if layout == "NHWC" else torch.contiguous_format
            x = bench.random(dtype, batch, cin, side, side).to(memory_format=order)
            w = bench.random(dtype, cout, cin // groups, kernel, kernel).to(memory_format=order)
            leaves = {"bwd_data": (x,), "bwd_weight": (w,)}.get(direction, (x, w))
            return bench.either(
                direction, lambda: torch.nn.functional.conv2d(x, w, None, stride, pad, 1, groups), *leaves
            )

        sizes = {"m": batch * out * out, "n": cout, "k": cin // groups * kernel * kernel, "batch": batch}
        other = {"cin": cin, "cout": cout, "ks": kernel, "hw": side, "stride": stride, "pad": pad, "groups": groups}
        memory = 4.0 * (4 + DTYPES[dtype][0]) * batch * (cin * side * side + cout * out * out)
        work = 2.0 * sizes["m"] * sizes["n"] * sizes["k"]
        return Workpiece("conv2d", dtype, sizes, {**other, "layout": layout, "dir": direction}, make, work, memory)

    if "convolution" in ASKED:
        yield from asked("convolution", {"convolution": case})
        return
    for dtype in bench.dtypes("fp32", "tf32", "fp16", "bf16"):
        for shape in CONVOLUTIONS:
            for layout in ("NCHW", "NHWC"):
                for direction in ("fwd", "bwd_weight") if shape[1] == 3 else ("fwd", "bwd_data", "bwd_weight"):
                    yield case(dtype, shape, layout, direction)


def memory_bound(bench: Bench) -> Iterator[Workpiece]:
    """Yield pointwise ops, norms, softmax, dropout and lookups."""
    functional = bench.torch.nn.functional

    def table(dtype: str, m: int, n: int, name: str, direction: str) -> Workpiece:
        op, inputs, function, _ = FUNCTIONS[name]

        def make() -> Callable[[], object]:
            x, y, *vectors = (bench.random(dtype, *shape) for shape in ((m, n), (m, n), (n,), (n,)))
            leaves = (x, *vectors[: VECTORS.get(name, 0)])
            return bench.either(direction, lambda: function(x, y, vectors, functional), *leaves)

        size = DTYPES[dtype][0] * m * n
        other: dict[str, object] = {"fn": name, "n_in": inputs, "dir": direction}
        return Workpiece(op, dtype, {"m": m, "n": n}, other, make, (inputs + 1) * size, 6 * size)

    def lookup(dtype: str, m: int, n: int, direction: str, vocabulary: int = 50257) -> Workpiece:
        def make() -> Callable[[], object]:
            tokens = bench.torch.randint(vocabulary, (m,), device=bench.device)
            weight = bench.random(dtype, vocabulary, n)
            return bench.either(direction, lambda: functional.embedding(tokens, weight), weight)

        size, other = DTYPES[dtype][0] * n, {"fn": "embedding", "vocabulary": vocabulary, "dir": direction}
        work = (2 * m + (vocabulary if direction == "bwd" else 0)) * size  # backward writes the whole table
        return Workpiece("embedding", dtype, {"m": m, "n": n}, {**other}, make, work, 3 * (m + vocabulary) * size)

    def batch_norm(dtype: str, shape: tuple[int, int, int], layout: str, direction: str) -> Workpiece:
        batch, channels, side = shape

        def make() -> Callable[[], object]:
            order = bench.torch.channels_last if layout == "NHWC" else bench.torch.contiguous_format
            x = bench.random(dtype, batch, channels, side, side).to(memory_format=order)
            w, b, mean, variance = (bench.torch.ones(channels, device=bench.device) for _ in range(4))
            return bench.either(direction, lambda: functional.batch_norm(x, mean, variance, w, b, True), x, w, b)

        rows = batch * side * side
        other: dict[str, object] = {"fn": "bn", "hw": side, "layout": layout, "dir": direction}
        size = DTYPES[dtype][0] * rows * channels
        return Workpiece(
            "batchnorm", dtype, {"m": rows, "n": channels, "batch": batch}, other, make, 3 * size, 6 * size
        )

    if "memory" in ASKED:
        yield from asked("memory", {"table": table, "batch_norm": batch_norm})
        return
    for dtype, direction in product(bench.dtypes("fp32", "fp16", "bf16"), ("fwd", "bwd")):
        names = [name for name, facts in FUNCTIONS.items() if direction == "fwd" or facts[3]]
        yield from (table(dtype, *shape, name, direction) for shape in TABLES for name in names)
        yield from (lookup(dtype, *shape, direction) for shape in TABLES[:2])
        for layout in ("NCHW", "NHWC"):
            yield from (batch_norm(dtype, shape, layout, direction) for shape in IMAGES)


def optimizers(bench: Bench) -> Iterator[Workpiece]:
    """Yield optimizer steps: fused, by lists of tensors, tensor by tensor."""
    optim = bench.torch.optim
    kinds: dict[str, tuple[Any, dict[str, float], int]] = {
        "adamw": (optim.AdamW, {}, 7),
        "sgd": (optim.SGD, {"momentum": 0.9}, 5),
    }

    def case(name: str, kernel: str, tensors: int, size: int, dtype: str = "fp32") -> Workpiece:
        kind, options, passes = kinds[name]

        def make() -> Callable[[], object]:
            parameters = [bench.random(dtype, size).requires_grad_() for _ in range(tensors)]
            for parameter in parameters:
                parameter.grad = bench.torch.randn_like(parameter)
            ways = {"fused": kernel == "fused", "foreach": kernel == "foreach"}
            optimizer = kind(parameters, lr=0.001, **options, **ways)
            return optimizer.step  # type: ignore[no-any-return]

        other: dict[str, object] = {"fn": name, "kernel": kernel, "passes": passes}
        total = float(DTYPES[dtype][0]) * tensors * size
        return Workpiece("optimizer", dtype, {"m": tensors, "n": size}, other, make, passes * total, 6 * total)

    if "optimizer" in ASKED:
        yield from asked("optimizer", {"optimizer": case})
        return
    for name in kinds:
        for kernel in ("fused", "foreach", "loop"):
            yield from (case(name, kernel, *shape) for shape in ((64, 2**20), (160, 2**16), (16, 2**24)))


#: Group: share of the budget, cases. Time that a group leaves goes to the next one.
GROUPS: dict[str, tuple[float, Callable[[Bench], Iterator[Workpiece]]]] = {
    "launch": (0.03, launches),
    "stream": (0.07, streams),
    "copy": (0.06, copies),
    "memory": (0.15, memory_bound),
    "optimizer": (0.05, optimizers),
    "convolution": (0.20, convolutions),
    "attention": (0.14, attentions),
    "gemm": (0.30, gemms),
}
