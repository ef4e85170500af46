"""Packages of fused kernels without their kernels: what each call returns, and what it keeps for its backward pass.

The transformers library takes the scans and convolutions of hybrids from ``causal_conv1d`` and ``mamba_ssm`` where they are
installed; its own PyTorch code beside them computes other products. These stand in for both packages over fake tensors: they copy,
return and keep what causal_conv1d 1.7.0 (causal_conv1d_interface.py) and mamba_ssm 2.3.0 (selective_scan_interface.py,
triton/ssd_combined.py) do. Convolutions run, so that their FLOPs are counted; what scans compute is not.

`install` comes before the import of a model's module, whose functions look for the packages then.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional


def _dense(given: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose last dimension lies side by side, as the code of the scan copies it."""
    return given if given.stride(-1) == 1 else given.contiguous()


class CausalConvolution(torch.autograd.Function):
    """``CausalConv1dFn``: as many positions as went in, with bias and SiLU."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return the convolved channels; keep what went in."""
        if x.stride(2) != 1 and x.stride(1) != 1:
            x = x.contiguous()
        batch, channels, length = x.shape
        seen = torch.empty(batch, channels, length + weight.shape[-1] - 1, dtype=x.dtype)
        functional.conv1d(seen, weight.unsqueeze(1), bias, groups=channels)
        ctx.save_for_backward(x, weight, bias)
        return torch.empty_like(x)


class SelectiveScan(torch.autograd.Function):
    """``SelectiveScanFn`` with a gate: every 2,048 steps a state is kept, with the sum of what led to it."""

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        """Return the gated result; keep all that went in, states, and the result before its gate."""
        x, step, decay, inwards, outwards, skip, gate, bias = map(_dense, given)
        batch, channels, length = x.shape
        states = torch.empty(batch, channels, -(-length // 2048), 2 * decay.shape[1], dtype=decay.dtype)
        kept = (x, step, decay, inwards, outwards, skip, gate, bias, states, torch.empty_like(step))
        ctx.save_for_backward(*kept)
        return torch.empty_like(gate)


class MambaInner(torch.autograd.Function):
    """``MambaInnerFn`` at its usual ``checkpoint_lvl`` of 1: a whole mixer of Mamba behind its first projection.

    Its backward pass convolves again, makes the steps of tokens again, and lets the scan gate its result again.
    """

    @staticmethod
    def forward(ctx: Any, both: torch.Tensor, *weights: torch.Tensor | None) -> torch.Tensor:
        """Return what the last projection makes; keep all that backward does not make again."""
        convolving, bias, inwards, pacing, last, last_bias, decay, skip, pace_bias = weights
        both = _dense(both)
        batch, channels, length = both.shape
        channels, states = channels // 2, decay.shape[-1]
        seen = torch.empty(batch, channels, length + convolving.shape[-1] - 1, dtype=both.dtype)
        functional.conv1d(seen, convolving, bias, groups=channels)
        projected = functional.linear(torch.empty(batch * length, channels, dtype=both.dtype), inwards)
        functional.linear(projected[:, : pacing.shape[1]], pacing)
        matrices = [torch.empty(batch, 1, states, length, dtype=both.dtype) for _ in range(2)]
        chunks = torch.empty(batch, channels, -(-length // 2048), 2 * states, dtype=decay.dtype)
        scanned = torch.empty(batch, channels, length, dtype=both.dtype)
        kept = (both, convolving, bias, projected, inwards, pacing, last, decay, *matrices, skip, pace_bias)
        ctx.save_for_backward(*kept, chunks, scanned)
        return functional.linear(torch.empty(batch, length, channels, dtype=both.dtype), last, last_bias)


class SplitConvolutionScan(torch.autograd.Function):
    """``MambaSplitConv1dScanCombinedFn``: convolution, scan in chunks, gate, norm and the last projection at once."""

    @staticmethod
    def forward(
        ctx: Any, both: torch.Tensor, head_size: int, groups: int, *weights: torch.Tensor | None
    ) -> torch.Tensor:
        """Return what the last projection makes; keep what the first one made, the scan's result, and the norm's deviations."""
        batch, length, _ = both.shape
        *_, skip, norm, last = weights
        scanned = torch.empty(batch, length, len(skip), head_size, dtype=both.dtype)
        deviations = None if norm is None else torch.empty(batch * length * groups, dtype=torch.float32)
        ctx.save_for_backward(both, *weights, scanned, deviations)
        return functional.linear(torch.empty(batch, length, len(skip) * head_size, dtype=both.dtype), last)


class LightningBlocks(torch.autograd.Function):
    """``LightningAttention2`` (OpenNLPLab/lightning-attention, lightning_attn2.py): its backward runs the blocks again."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return what queries find; keep what went in."""
        query, key, value = (part.contiguous() for part in (query, key, value))
        ctx.save_for_backward(query, key, value)
        return torch.empty_like(value)


def lightning_attention(layer: Any, hidden_states: torch.Tensor, **_others: Any) -> tuple[torch.Tensor, None]:
    """Run transformers' ``MiniMaxLightningAttention`` with the function in the place of its loop over blocks."""
    batch, length, _ = hidden_states.shape
    heads = layer.act_fn(layer.qkv_proj(hidden_states)).reshape(batch, length, layer.num_attention_heads, -1)
    parts = (part.transpose(1, 2) for part in torch.split(heads, layer.head_dim, dim=3))
    made = LightningBlocks.apply(*parts).transpose(1, 2).reshape(batch, length, -1)
    gate = functional.sigmoid(layer.output_gate(hidden_states))
    return layer.out_proj(gate * layer.norm(made)), None


class KimiDelta(torch.autograd.Function):
    """``ChunkKDAFunction`` (flash-linear-attention 0.4, ops/kda/chunk.py): its backward makes states and what is new again.

    Lengths of queries and keys are divided out first; decays are summed up inside of chunks of 64 tokens, in fp32.
    """

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        """Return what queries find; keep what the function keeps: chunks have their scores and an inverse."""
        query, key, value, decay, strength = (part.contiguous() for part in given)
        lengths = [torch.empty(part.shape[:-1], dtype=torch.float32) for part in (query, key)]
        normed = [torch.empty_like(part) for part in (query, key)]
        squares = [torch.empty(*key.shape[:-1], 64, dtype=key.dtype) for _ in range(2)]
        ctx.save_for_backward(*normed, *lengths, value, torch.empty_like(decay), strength, *squares)
        return torch.empty_like(value)


def chunk_kda(query, key, value, g, beta, **_others):
    """Run Kimi Delta Attention over a sequence."""
    return KimiDelta.apply(query, key, value, g, beta), None


def causal_conv1d_fn(x, weight, bias=None, activation=None, **_others):
    """Convolve over the last tokens."""
    del activation
    return CausalConvolution.apply(x, weight, bias)


def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False):  # noqa: N803
    """Scan the channels of Mamba."""
    del delta_softplus
    return SelectiveScan.apply(u, delta, A, B, C, D, z, delta_bias)


def mamba_inner_fn(
    xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, B=None,  # noqa: N803
    C=None, D=None, delta_bias=None, delta_softplus=True, **_norms,  # noqa: N803
):  # fmt: skip
    """Run a mixer of Mamba behind its first projection, while training.

    Norms (Falcon-Mamba's ``MambaInnerFn``, selective_scan_with_ln_interface.py) come before the matrices that are kept; the
    steps' come again with them.
    """
    del B, C, delta_softplus
    weights = (conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias)
    return MambaInner.apply(xz, *weights, A, D, delta_bias)


def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, D=None, dt_bias=None, dt_softplus=False):  # noqa: N803
    """Scan the heads of Mamba-2 where nothing is trained."""
    del dt, A, B, C, chunk_size, D, dt_bias, dt_softplus
    return torch.empty(x.shape, dtype=x.dtype)


def mamba_split_conv1d_scan_combined(
    zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size, rmsnorm_weight=None, outproj_weight=None,  # noqa: N803
    headdim=None, ngroups=1,
):  # fmt: skip
    """Run a mixer of Mamba-2 behind its first projection, while training."""
    del chunk_size
    weights = (conv1d_weight, conv1d_bias, dt_bias, A, D, rmsnorm_weight, outproj_weight)
    return SplitConvolutionScan.apply(zxbcdt, headdim, ngroups, *weights)


def install() -> None:
    """Let both packages be found."""
    packages = {
        "causal_conv1d": (causal_conv1d_fn,),
        "mamba_ssm": (selective_scan_fn, mamba_inner_fn, mamba_chunk_scan_combined, mamba_split_conv1d_scan_combined),
    }
    for name, functions in packages.items():
        package = ModuleType(name)
        for function in functions:
            setattr(package, function.__name__, function)
        sys.modules[name] = package
