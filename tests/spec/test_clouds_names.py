"""Hold the names that clouds give their machines to the nodes of the catalog."""

import pytest

from roofsim.api import resolve
from roofsim.errors import SpecError, UnknownNameError
from roofsim.spec.catalog import resolve_name

NAMES = {
    "p4d.24xlarge": ("aws-p4d", "a100-sxm4-40gb", 8),
    "p4de.24xlarge": ("aws-p4de", "a100-sxm4-80gb", 8),
    "p5.48xlarge": ("aws-p5", "h100-sxm5-80gb", 8),
    "p5e.48xlarge": ("aws-p5e", "h200-sxm-141gb", 8),
    "p5en.48xlarge": ("aws-p5en", "h200-sxm-141gb", 8),
    "p6-b200.48xlarge": ("aws-p6-b200", "b200-sxm-180gb", 8),
    "p6-b300.48xlarge": ("aws-p6-b300", "b300-sxm-288gb", 8),
    "g5.xlarge": ("aws-g5-xlarge", "a10g", 1),
    "g6e.12xlarge": ("aws-g6e-12xlarge", "l40s", 4),
    "g7e.48xlarge": ("aws-g7e-48xlarge", "rtx-pro-6000-blackwell-server", 8),
    "a2-highgpu-8g": ("gcp-a2-highgpu-8g", "a100-sxm4-40gb", 8),
    "a3-megagpu-8g": ("gcp-a3-megagpu-8g", "h100-sxm5-80gb", 8),
    "a3-ultragpu-8g": ("gcp-a3-ultragpu-8g", "h200-sxm-141gb", 8),
    "a4-highgpu-8g": ("gcp-a4-highgpu-8g", "b200-sxm-180gb", 8),
    "ND96isr_H100_v5": ("azure-nd-h100-v5", "h100-sxm5-80gb", 8),
    "Standard_ND96isr_H200_v5": ("azure-nd-h200-v5", "h200-sxm-141gb", 8),
    "ND96asr_v4": ("azure-nd-a100-v4", "a100-sxm4-40gb", 8),
    "Standard_NC24ads_A100_v4": ("azure-nc24ads-a100-v4", "a100-pcie-80gb", 1),
    "BM.GPU.H100.8": ("oci-bm-h100-8", "h100-sxm5-80gb", 8),
    "BM.GPU.MI355X.8": ("oci-bm-mi355x-8", "mi355x", 8),
    "g5.12xlarge": ("aws-g5-12xlarge", "a10g", 4),
    "g7e.24xlarge": ("aws-g7e-24xlarge", "rtx-pro-6000-blackwell-server", 4),
    "a2-megagpu-16g": ("gcp-a2-megagpu-16g", "a100-sxm4-40gb", 16),
    "a4x-highgpu-4g": ("gcp-a4x-highgpu-4g", "gb200", 4),
    "g2-standard-96": ("gcp-g2-standard-96", "l4", 8),
    "g4-standard-384": ("gcp-g4-standard-384", "rtx-pro-6000-blackwell-server", 8),
    "ND_H200_v5": ("azure-nd-h200-v5", "h200-sxm-141gb", 8),
    "ND_MI300X_v5": ("azure-nd-mi300x-v5", "mi300x", 8),
    "ND_GB200_v6": ("azure-nd128isr-ndr-gb200-v6", "gb200", 4),
    "Standard_ND128isr_GB300_v6": ("azure-nd128isr-gb300-v6", "gb300", 4),
    "BM.GPU.GB200.4": ("oci-bm-gpu-gb200-4", "gb200", 4),
    "VM.GPU.A10.2": ("oci-vm-gpu-a10-2", "a10", 2),
    "gpu_8x_h100_sxm5": ("lambda-gpu-8x-h100-sxm5", "h100-sxm5-80gb", 8),
}


@pytest.mark.parametrize(("written", "node"), NAMES.items())
def test_a_cloud_s_own_name_is_the_node_s(written, node):
    name, gpu, gpus = node
    assert resolve_name("system", written) == name
    resolved = resolve({"model": "gpt2", "hardware": {"system": written, "gpus": gpus}})
    assert (resolved.system.name, resolved.gpu.name, resolved.system.gpus_per_node) == (name, gpu, gpus)


def test_an_unknown_machine_names_its_neighbours():
    with pytest.raises(SpecError, match=r"unknown system 'p4d.25xlarge'. Did you mean .*'p4d-24xlarge'"):
        resolve({"model": "gpt2", "hardware": {"system": "p4d.25xlarge"}})


@pytest.mark.parametrize("kind", ["gpu", "system"])
@pytest.mark.parametrize("name", ["tpu-v5e", "TPU_v4", "v5litepod-8", "trn2.48xlarge", "Trainium2", "inf2.xlarge"])
def test_what_is_not_modelled_says_why(kind, name):
    with pytest.raises(UnknownNameError, match=r"not modelled: .* compiles a whole step"):
        resolve_name(kind, name)


@pytest.mark.parametrize("name", ["trx", "a101", "v5", "m40x"])
def test_other_names_are_only_unknown(name):
    with pytest.raises(UnknownNameError) as refused:
        resolve_name("gpu", name)
    assert "modelled" not in str(refused.value)
