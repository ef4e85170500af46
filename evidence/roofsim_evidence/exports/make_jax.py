"""Lower small networks with JAX, and count their products in their jaxpr: ``python -m roofsim_evidence.exports.make_jax``.

Needs jax; the tests and roofsim do not. Writes the compressed text of each network and its row of `counts.csv`: parameters, and the
FLOPs of products and convolutions, loops included.
"""

from __future__ import annotations

import gzip
import itertools
from math import prod
from typing import Any, Final

import jax
import jax.extend.core
import jax.numpy as jnp

from roofsim_evidence.exports.make_counts import HOME, written

jax.config.update("jax_platforms", "cpu")


def dense(*sizes: int) -> Any:
    return jnp.ones(sizes, jnp.float32)


def mlp(params: Any, x: Any) -> Any:
    for layer in params["layers"]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x


def mlp_params() -> Any:
    sizes = (64, 256, 256, 32)
    return {"layers": [{"w": dense(a, b), "b": dense(b)} for a, b in itertools.pairwise(sizes)]}


def block(params: Any, x: Any) -> Any:
    """Return what a layer of a transformer makes of its input."""
    batch, length, width = x.shape
    centred = x - x.mean(-1, keepdims=True)
    y = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * params["norm"]
    q, k, v = (part.reshape(batch, length, 4, width // 4) for part in jnp.split(y @ params["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // 4) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
    x = x + mixed @ params["out"]
    return x + jax.nn.gelu(x @ params["up"]) @ params["down"]


def stacked(layers: int, width: int = 64) -> Any:
    return {
        "table": dense(500, width),
        "layers": {
            "norm": dense(layers, width),
            "qkv": dense(layers, width, 3 * width),
            "out": dense(layers, width, width),
            "up": dense(layers, width, 4 * width),
            "down": dense(layers, 4 * width, width),
        },
    }


def transformer(params: Any, ids: Any) -> Any:
    x = params["table"][ids]
    x, _ = jax.lax.scan(lambda carry, layer: (block(layer, carry), None), x, params["layers"])
    return x @ params["table"].T


def convolutional(params: Any, x: Any) -> Any:
    for kernel, stride in zip(params["kernels"], (2, 1, 2), strict=True):
        x = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean((1, 2)) @ params["head"]


def step(params: Any, x: Any, y: Any) -> Any:
    """Return parameters after a step of gradient descent."""
    grads = jax.grad(lambda p: jnp.mean((mlp(p, x) - y) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


CONVOLUTIONAL: Final = {
    "kernels": [dense(3, 3, 3, 16), dense(3, 3, 16, 32), dense(3, 3, 32, 64)],
    "head": dense(64, 10),
}
NETS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "mlp": (mlp, (mlp_params(), dense(32, 64))),
    "mlp-train-step": (step, (mlp_params(), dense(32, 64), dense(32, 32))),
    "transformer-scan": (transformer, (stacked(4), jnp.zeros((2, 32), jnp.int32))),
    "convolutional": (convolutional, (CONVOLUTIONAL, dense(2, 32, 32, 3))),
}


def flops(jaxpr: Any) -> int:
    """Return the FLOPs of products and convolutions of a jaxpr."""
    total = 0
    for equation in jaxpr.eqns:
        out = [prod(each.aval.shape) for each in equation.outvars]
        shapes = [each.aval.shape for each in equation.invars]
        if equation.primitive.name == "dot_general":
            (over, _), _ = equation.params["dimension_numbers"]
            total += 2 * out[0] * prod(shapes[0][axis] for axis in over)
        elif equation.primitive.name == "conv_general_dilated":
            kernel = equation.params["dimension_numbers"].rhs_spec
            total += 2 * out[0] * prod(shapes[1]) // shapes[1][kernel[0]]
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            total += times * flops(inner)
    return total


def made(name: str) -> dict[str, Any]:
    """Lower a network, write its text, and return its row."""
    function, given = NETS[name]
    text = jax.jit(function).lower(*given).as_text(debug_info=True)
    with (HOME / f"{name}.stablehlo.gz").open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(text.encode())
    return {
        "name": name,
        "form": "stablehlo",
        "counted_in": "samples",
        "batch": 1,
        "length": 1,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(given[0])),
        "flops": flops(jax.make_jaxpr(function)(*given).jaxpr),
        "made_by": f"jax {jax.__version__}",
    }


if __name__ == "__main__":
    for each in NETS:
        written([made(each)])
