"""Recommendation models by torchrec's own code: tables unsharded, one index of each feature or as many as MLPerf's data have.

Rows are looked up as by FBGEMM's table-batched kernels, which keep the indices that they are handed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from counting import Case, Samples, entering, first, numbers
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976, 14,
    39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip
ROWS_V2 = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4, 976, 14,
    40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
#: Indices of each feature in MLPerf's multi-hot data (mlcommons/training, recommendation_v2/torchrec_dlrm).
HOT = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


class LookedUp(torch.autograd.Function):
    """Sums of the rows of each bag."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Return a row of each bag, one bag a sample; keep the indices. Offsets of all tables come with the batch."""
        ctx.save_for_backward(indices)
        return torch.empty(Samples.count, table.shape[1], dtype=table.dtype)


class _Tables(torch.nn.Module):
    """An ``EmbeddingBagCollection`` on kernels that give rows in the type of their tables."""

    def __init__(self, rows: Sequence[int]) -> None:
        super().__init__()
        self.tables = torch.nn.ParameterList(torch.empty(count, 128) for count in rows)

    def embedding_bag_configs(self) -> list[Any]:
        """Say what the tables are."""
        from torchrec.modules.embedding_configs import EmbeddingBagConfig

        return [
            EmbeddingBagConfig(
                name=f"t{place}", embedding_dim=128, num_embeddings=len(table), feature_names=[f"f{place}"]
            )
            for place, table in enumerate(self.tables)
        ]

    def forward(self, features: Any) -> Any:
        from torchrec.sparse.jagged_tensor import KeyedTensor

        given = features.to_dict()
        names = [f"f{place}" for place in range(len(self.tables))]
        rows = [LookedUp.apply(table, given[name].values()) for name, table in zip(names, self.tables, strict=True)]
        return KeyedTensor(names, [128] * len(names), torch.cat(rows, 1))


def _narrowed(model: Any) -> Any:
    """Return the model with its linear layers, which torchrec makes in fp32, in the type of its tables."""
    for part in model.modules():
        for name, held in list(part.named_parameters(recurse=False)):
            setattr(part, name, torch.nn.Parameter(torch.empty(held.shape, dtype=torch.bfloat16)))
    return model


def _dlrm() -> Any:
    from torchrec.models.dlrm import DLRM

    return _narrowed(DLRM(_Tables(ROWS), 13, [512, 256, 128], [1024, 1024, 512, 256, 1]))


def _dcn() -> Any:
    from torchrec.models.dlrm import DLRM_DCN

    return _narrowed(DLRM_DCN(_Tables(ROWS_V2), 13, [512, 256, 128], [1024, 1024, 512, 256, 1], 3, 512))


def _call(hot: Sequence[int], model: Any) -> Any:
    """Hand over indices with their lengths, which the class would read otherwise."""
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    batch = Samples.count
    counts = [number * batch for number in hot]
    given = KeyedJaggedTensor(
        keys=[f"f{place}" for place in range(len(hot))],
        values=entering(torch.zeros(sum(counts), dtype=torch.int64)),
        lengths=entering(torch.zeros(len(hot) * batch, dtype=torch.int64)),
        offsets=entering(torch.zeros(len(hot) * batch + 1, dtype=torch.int64)),
        length_per_key=counts,
        offset_per_key=[sum(counts[:place]) for place in range(len(hot) + 1)],
    )
    return model(numbers(1, 13), given)


def _clicks(out: Any) -> torch.Tensor:
    said = first([out]).squeeze(-1)
    return functional.binary_cross_entropy_with_logits(said, entering(torch.zeros_like(said)))


CASES: dict[str, Case] = {
    "dlrm": ("torchrec", "", _dlrm, partial(_call, (1,) * 26)),
    "dlrm-dcnv2": ("torchrec", "", _dcn, partial(_call, HOT)),
}
LOSSES = dict.fromkeys(CASES, _clicks)
