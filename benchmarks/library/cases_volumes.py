"""Networks of volumes: MLPerf's 3D U-Net, by MONAI's network of the same layers (nnU-Net's, ``DynUNet``)."""

from __future__ import annotations

from typing import Any

import torch
from counting import Case, entering, numbers
from torch.nn import functional


def _unet3d() -> Any:
    from monai.networks.nets import DynUNet

    # As mlcommons/training has it: instance norms, ReLU that writes anew, convolutions without biases but for those between levels.
    return DynUNet(
        spatial_dims=3, in_channels=1, out_channels=3, kernel_size=[3] * 6, strides=[1, 2, 2, 2, 2, 2],
        upsample_kernel_size=[2] * 5, filters=[32, 64, 128, 256, 320, 320], norm_name=("INSTANCE", {"affine": True}),
        act_name=("RELU", {"inplace": False}), trans_bias=True,
    )  # fmt: skip


def _voxels(out: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of voxels."""
    return functional.cross_entropy(out, entering(torch.zeros(len(out), *out.shape[2:], dtype=torch.int64)))


CASES: dict[str, Case] = {"unet3d": ("monai", "", _unet3d, lambda model: model(numbers(1, 1, 128, 128, 128)))}
LOSSES = dict.fromkeys(CASES, _voxels)
