"""Name the ops of PyTorch that several tables of captured programs ask for."""

from __future__ import annotations

from typing import Final

#: Fused attention -> the kernel that it runs.
ATTENTIONS: Final = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_cudnn_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "scaled_dot_product_attention": "flash",
}
