"""What one optimizer reads, writes, keeps and needs for a moment, per parameter: a row for each implementation."""

from __future__ import annotations

from typing import Final

from roofsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class StateCode:
    """States in a few bits, with an fp32 scale per block; tensors of less than `smallest` elements keep fp32 states."""

    bits: float
    block: float
    smallest: float = 4096.0


#: bitsandbytes/optim/optimizer.py: Optimizer2State, block_wise, min_8bit_size; blocks of 256 (2,048 before 0.44).
EIGHT_BITS: Final = StateCode(bits=8.0, block=256.0)
#: pytorch/ao, torchao/optim/subclass_4bit.py: OptimState4bit, block_size 128.
FOUR_BITS: Final = StateCode(bits=4.0, block=128.0)


@dataclass(frozen=True, kw_only=True)
class Method:
    """What one optimizer reads and writes per parameter, counted kernel by kernel from its reference code.

    `parameter_*`, `gradient_*` and `state_*` are passes over tensors of these kinds; a fused kernel makes one of each.
    """

    states: int
    kernels: float
    parameter_reads: float
    parameter_writes: float
    gradient_reads: float
    state_reads: float
    state_writes: float
    flops: float
    temporaries: float = 0.0
    """Extra parameter-sized tensors that live during the update."""
    largest: float = 0.0
    """Extra tensors of the size of the largest one: what a loop over tensors allocates and frees for each."""
    largest_in_fp32: float = 0.0
    """The same, in fp32 whatever the parameters have."""
    per_tensor: bool = False
    """Whether every tensor gets launches of its own."""
    code: StateCode | None = None
    """How its states are packed; None: in the type of states."""
    wide_states: bool = False
    """Whether its states are fp32 whatever the parameters have."""
    factored: bool = False
    """Whether it keeps a row and a column of each matrix in place of a state."""
    products: str = ""
    """What counts its matrix products, a module beside this one and its function; none: it has none."""
    rest: str | None = None
    """The method that embeddings, heads and vectors go to; None: it takes them too."""
    passes_shards_on: bool = False
    """Whether ranks that hold shards exchange them, so that each has whole matrices to work on."""
    source: str = ""


#: (method, implementation) -> its passes. ``foreach`` runs each elementary step as one multi-tensor kernel, ``loop`` as
#: one kernel per tensor; the passes are the same.
METHODS: Final[dict[tuple[str, str], Method]] = {
    ("adamw", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=16.0, source="torch.optim fused kernel: parameter, gradient, two moments once each",
    ),
    ("adamw", "foreach"): Method(
        states=2, kernels=8.0, parameter_reads=2, parameter_writes=2, gradient_reads=2, state_reads=7, state_writes=7,
        flops=16.0, temporaries=1.0,
        source="torch.optim foreach: decay, lerp, mul, addcmul, sqrt, div, add, addcdiv; the denominator is a temporary",
    ),
    ("adamw", "bert_adam"): Method(
        states=2, kernels=14.0, parameter_reads=3, parameter_writes=1, gradient_reads=4, state_reads=12, state_writes=11,
        flops=20.0, temporaries=1.0,
        source="google-research and huggingface BertAdam, kernel by kernel: norm and clip, two moments, square root, "
        "quotient, decay, update; 31 passes in a loop over tensors",
    ),
    ("lamb", "fused"): Method(
        states=2, kernels=4.0, parameter_reads=3, parameter_writes=1, gradient_reads=2, state_reads=4, state_writes=3,
        flops=24.0, temporaries=0.0,
        source="apex FusedLAMB: norm of all gradients; moments and the update, written over the gradient; norms of parameters "
        "and updates; parameters less updates",
    ),
    ("sgd", "foreach"): Method(
        states=0, kernels=2.0, parameter_reads=2, parameter_writes=1, gradient_reads=2, state_reads=0, state_writes=1,
        flops=4.0, temporaries=1.0, source="torch.optim foreach: weight decay into a temporary, add",
    ),
    ("sgd-momentum", "foreach"): Method(
        states=1, kernels=4.0, parameter_reads=2, parameter_writes=1, gradient_reads=2, state_reads=3, state_writes=3,
        flops=6.0, temporaries=1.0, source="torch.optim foreach: weight decay, momentum scale, add, update",
    ),
    ("lion", "fused"): Method(
        states=1, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=1, state_writes=1,
        flops=8.0, source="arXiv 2302.06675, one fused kernel",
    ),
    ("lion", "loop"): Method(
        states=1, kernels=8.0, parameter_reads=2, parameter_writes=2, gradient_reads=2, state_reads=7, state_writes=6,
        flops=8.0, largest=3.0,
        source="google/automl, lion/lion_pytorch.py: decay, two scaled terms and their sum (live together), sign, update, "
        "two for the momentum",
    ),
    ("adam8bit", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=24.0, per_tensor=True, code=EIGHT_BITS,
        source="bitsandbytes block-wise kernel (arXiv 2110.02861), one launch a tensor: one byte a state, one scale per 256",
    ),
    ("adam4bit", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=32.0, per_tensor=True, code=FOUR_BITS,
        source="pytorch/ao, torchao/optim/adam.py: single_param_adam compiled into one kernel (arXiv 2309.01507)",
    ),
    ("adafactor", "loop"): Method(
        states=0, kernels=12.0, parameter_reads=2, parameter_writes=1, gradient_reads=4, state_reads=5, state_writes=6,
        flops=20.0, largest_in_fp32=2.0, factored=True,
        source="transformers' Adafactor without momentum, kernel by kernel; the squared gradient and its sum with eps (later "
        "the update and its negative) are temporaries, and so are fp32 copies of 16-bit parameters and gradients",
    ),
    ("muon", "loop"): Method(
        states=1, kernels=40.0, parameter_reads=2, parameter_writes=2, gradient_reads=3, state_reads=2, state_writes=2,
        flops=8.0, products="newton_schulz.orthogonalised", rest="adamw", passes_shards_on=True,
        source="KellerJordan/Muon, muon.py: momentum and gradient interpolated in place, decay and update; what lies between "
        "is `newton_schulz`; embeddings, heads and vectors go to AdamW",
    ),
    ("paged-adamw", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=16.0, per_tensor=True, wide_states=True,
        source="bitsandbytes, optim/adamw.py (PagedAdamW32bit): one launch a tensor, fp32 states in managed memory; pages move to "
        "the host when the card has no room",
    ),
    ("paged-adam8bit", "fused"): Method(
        states=2, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=2, state_writes=2,
        flops=24.0, per_tensor=True, code=EIGHT_BITS,
        source="bitsandbytes, optim/adamw.py (PagedAdamW8bit): as adam8bit, states in managed memory",
    ),
    ("ademamix", "fused"): Method(
        states=3, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=3, state_writes=3,
        flops=22.0, per_tensor=True, wide_states=True,
        source="bitsandbytes, optim/ademamix.py (arXiv 2409.03137): state1 holds two moving means, state2 the second moment",
    ),
    ("ademamix8bit", "fused"): Method(
        states=3, kernels=1.0, parameter_reads=1, parameter_writes=1, gradient_reads=1, state_reads=3, state_writes=3,
        flops=30.0, per_tensor=True, code=EIGHT_BITS,
        source="bitsandbytes, optim/ademamix.py (AdEMAMix8bit), blocks of 256",
    ),
    ("adagrad", "foreach"): Method(
        states=1, kernels=5.0, parameter_reads=1, parameter_writes=2, gradient_reads=3, state_reads=4, state_writes=3,
        flops=7.0, temporaries=2.0,
        source="torch/optim/adagrad.py, _multi_tensor_adagrad: addcmul, sqrt, add, mul, addcdiv; root and scaled gradient are "
        "lists",
    ),
    ("lars", "loop"): Method(
        states=1, kernels=14.0, parameter_reads=3, parameter_writes=4, gradient_reads=5, state_reads=3, state_writes=2,
        flops=13.0, largest=1.0,
        source="NVIDIA/apex, parallel/LARC.py around torch.optim.SGD with momentum: two norms and the rate of each tensor, decay "
        "and scale written into the gradient, momentum, update",
    ),
    ("galore", "loop"): Method(
        states=0, kernels=13.0, parameter_reads=3, parameter_writes=3, gradient_reads=1, state_reads=0, state_writes=0,
        flops=3.0, products="low_rank.projected", rest="adamw",
        source="jiaweizzhao/GaLore, galore_torch/adamw.py and galore_projector.py (arXiv 2403.03507): what lies between is "
        "`low_rank`; embeddings, heads and vectors go to AdamW (README: attention and MLP only)",
    ),
    ("soap", "loop"): Method(
        states=2, kernels=20.0, parameter_reads=2, parameter_writes=1, gradient_reads=1, state_reads=10, state_writes=8,
        flops=16.0, largest=3.0, products="preconditioners.rotated",
        source="nikhilvyas/SOAP, soap.py (arXiv 2409.11321): Adam's two states, its products in `preconditioners`",
    ),
    ("shampoo", "loop"): Method(
        states=2, kernels=16.0, parameter_reads=2, parameter_writes=1, gradient_reads=3, state_reads=6, state_writes=4,
        flops=14.0, largest=2.0, products="preconditioners.preconditioned",
        source="facebookresearch/optimizers, distributed_shampoo (arXiv 2309.06497): filtered gradient and Adam's second moment "
        "for grafting, its products in `preconditioners`",
    ),
    ("outer", "foreach"): Method(
        states=2, kernels=7.0, parameter_reads=3, parameter_writes=4, gradient_reads=3, state_reads=5, state_writes=3,
        flops=8.0, temporaries=1.0,
        source="meta-pytorch/torchft, local_sgd.py (DiLoCo): the change against kept parameters, these put back, torch.optim.SGD "
        "with Nesterov's momentum (scale, add, look ahead, update), parameters kept anew; the change is a temporary",
    ),
    ("average", "foreach"): Method(
        states=1, kernels=1.0, parameter_reads=1, parameter_writes=0, gradient_reads=0, state_reads=1, state_writes=1,
        flops=3.0, source="torch/optim/swa_utils.py, get_ema_multi_avg_fn: one foreach lerp of the averages towards the parameters",
    ),
}  # fmt: skip
