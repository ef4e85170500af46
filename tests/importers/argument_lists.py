"""Read the arguments that programs declare, out of their unpacked sources, without importing them.

``python -m tests.importers.argument_lists PROGRAM VERSION DATE FOLDER...`` writes ``arguments/PROGRAM.txt``: a line for each
argument, with its other spellings behind it. Folders come from ``pip download --no-deps PROGRAM``, unpacked; NeMo's arguments are
also those of megatron-core and lightning. The lists of Megatron-LM and TensorRT-LLM, which are not on PyPI, were read from their
repositories.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent / "arguments"
#: Names of a field, or of a group of fields, in a class of settings.
Names = list[tuple[str, ...]]


def tree(folder: Path, pattern: str) -> ast.Module:
    """Return the one module of a package that a pattern names."""
    modules = sorted(folder.rglob(pattern))
    assert len(modules) == 1, (folder, pattern, modules)
    return ast.parse(modules[0].read_text(encoding="utf-8"))


def argparse_flags(module: ast.AST, calls: tuple[str, ...] = ("add_argument",)) -> Names:
    """Return the flags of every call of `add_argument`, and of click's `option`, in a module."""
    flags = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls:
            words = [word for arg in node.args for word in _strings(arg)]
            flags.append(tuple(word for word in words if word.startswith("-")))
    return [names for names in flags if names]


def _strings(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split("/") if node.value.startswith("--") else [node.value]
    return []


def classes(module: ast.Module) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by name."""
    return {node.name: node for node in ast.walk(module) if isinstance(node, ast.ClassDef)}


def fields(known: dict[str, ast.ClassDef], name: str, prefix: str = "") -> Iterator[str]:
    """Yield the fields of a class of settings; those of classes that it holds behind a period."""
    for base in known[name].bases:
        if isinstance(base, ast.Name) and base.id in known:
            yield from fields(known, base.id, prefix)
    for node in known[name].body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.target.id[0] == "_":
            continue
        said = ast.unparse(node.annotation)
        if said.startswith("ClassVar"):
            continue
        inner = next((word for word in re.findall(r"\w+", said) if word in known and word != name), None)
        if inner is not None and _holds_fields(known[inner]):
            yield from fields(known, inner, f"{prefix}{node.target.id}.")
        else:
            yield prefix + node.target.id


def _holds_fields(node: ast.ClassDef) -> bool:
    enum = any("Enum" in ast.unparse(base) for base in node.bases)
    return not enum and any(isinstance(item, ast.AnnAssign) for item in node.body)


def megatron_fields(known: dict[str, ast.ClassDef], name: str) -> Names:
    """Return the flags that Megatron makes of the fields of a class: ``--no-NAME`` and ``--disable-NAME`` where it is true."""
    flags: Names = []
    for base in known[name].bases:
        if isinstance(base, ast.Name) and base.id in known:
            flags += megatron_fields(known, base.id)
    for node in known[name].body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = "" if node.value is None else ast.unparse(node.value)
            own = re.search(r"'arg_names': \[([^\]]*)\]", said)
            flag = f"--{node.target.id.replace('_', '-')}"
            if own:
                flags.append(tuple(re.findall(r"'([^']+)'", own[1])))
            elif ast.unparse(node.annotation) == "bool" and re.match(r"(field\(default=)?True", said):
                flags.append((f"--no-{flag[2:]}", f"--disable-{flag[2:]}"))
            else:
                flags.append((flag,))
    return flags


def subscripts(module: ast.Module, mapping: str, prefix: str) -> Names:
    """Return the keys that a module sets in a mapping of its own: ``fsdp_config["fsdp_version"] = ...``."""
    keys = {
        node.slice.value
        for node in ast.walk(module)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == mapping
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }
    return [(f"{prefix}{key}",) for key in sorted(map(str, keys))]


def parameters(module: ast.Module, owner: str, prefix: str) -> Names:
    """Return the arguments with which objects of a class are made."""
    made = next(
        node for node in classes(module)[owner].body if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    words = [*made.args.args[1:], *made.args.kwonlyargs]
    return [(f"{prefix}{word.arg}",) for word in words]


def vllm(folder: Path) -> Names:
    """Return the flags of `vllm serve`: of its engine and of its front end."""
    engine = argparse_flags(tree(folder, "engine/arg_utils.py"))
    front = tree(folder, "entrypoints/common/cli_args.py")
    known = classes(front)
    classes_of = [cls for cls in ("BaseFrontendArgs", "FrontendArgs") if cls in known]
    own = [(f"--{name.replace('_', '-')}",) for cls in classes_of for name in fields(known, cls)]
    return [*engine, *own, *argparse_flags(front)]


def sglang(folder: Path) -> Names:
    """Return the flags of SGLang's server."""
    return argparse_flags(tree(folder, "srt/server_args.py"))


#: Fields that Megatron-LM leaves out of its flags, or spells in a way of its own (arguments.py: _add_network_size_args).
NOT_FLAGS = frozenset(
    [
        "timers",
        "finalize_model_grads_func",
        "grad_scale_func",
        "no_sync_func",
        "grad_sync_func",
        "param_sync_func",
        "_cpu_offloading_context",
        "init_method",
        "output_layer_init_method",
        "embedding_init_method",
        "activation_func",
        "pipeline_model_parallel_layout",
        "window_size",
        "window_attn_skip_freq",
        "no_rope_freq",
        "moe_layer_freq",
        "linear_attention_freq",
        "moe_router_load_balancing_type",
        "moe_aux_loss_coeff",
        "cp_comm_type",
        "cuda_graph_scope",
        "virtual_pipeline_model_parallel_size",
        "params_dtype",
        "enable_autocast",
        "autocast_dtype",
        "num_microbatches_with_partial_activation_checkpoints",
        "tp_comm_overlap_disable_qkv",
        "tp_comm_overlap_disable_fc1",
        "pipeline_dtype",
        "variable_seq_lengths",
        "batch_p2p_comm",
        "batch_p2p_sync",
        "deallocate_pipeline_outputs",
        "cpu_offloading",
        "cpu_offloading_activations",
        "cpu_offloading_weights",
        "cpu_offloading_double_buffering",
        "num_layers_in_first_pipeline_stage",
        "num_layers_in_last_pipeline_stage",
        "softmax_scale",
        "gated_linear_unit",
        "bias_activation_fusion",
        "activation_func_fp8_input_store",
        "test_mode",
        "memory_efficient_layer_norm",
        "fused_single_qkv_rope",
        "fp8_dot_product_attention",
        "fp8_multi_head_attention",
        "tp_only_amax_red",
        "use_kitchen",
        "moe_token_dropping",
        "cuda_graph_use_single_mempool",
        "cuda_graph_retain_backward_graph",
        "disable_parameter_transpose_cache",
        "inference_sampling_seed",
        "use_inference_optimized_layers",
        "heterogeneous_block_specs",
        "hetereogenous_dist_checkpoint",
        "quant_recipe",
        "tp_comm_atomic_ag",
        "tp_comm_atomic_rs",
        "moe_router_topk_limited_devices",
        "inference_rng_tracker",
        "use_te_rng_tracker",
        "log_max_attention_logit",
        "barrier_with_L1_time",
        "num_moe_experts",
        "fp8_param",
        "gradient_accumulation_fusion",
        "overlap_p2p_comm",
        "attention_softmax_in_fp32",
        "masked_softmax_fusion",
        "persist_layer_norm",
        "bias_dropout_fusion",
        "apply_rope_fusion",
    ]
)


def megatron_core(folder: Path) -> Names:
    """Return the flags that Megatron-LM makes of megatron-core's configuration."""
    known = classes(tree(folder, "core/model_parallel_config.py")) | classes(
        tree(folder, "core/transformer/transformer_config.py")
    )
    left_out = {f"--{name.replace('_', '-')}" for name in NOT_FLAGS}
    left_out |= {f"--no-{name[2:]}" for name in left_out}
    return [names for names in megatron_fields(known, "TransformerConfig") if names[0] not in left_out]


def torchtitan(folder: Path) -> Names:
    """Return the keys of a job file."""
    known = classes(tree(folder, "torchtitan/config/job_config.py"))
    return [(name,) for name in fields(known, "JobConfig")]


def deepspeed(folder: Path) -> Names:
    """Return the flags of the launcher and the keys of the configuration file."""
    runtime = folder / "deepspeed" / "runtime"
    paths = ["constants.py", "../constants.py", "zero/config.py", "data_pipeline/constants.py", "../profiling/constants.py",
             "../elasticity/constants.py", "swap_tensor/constants.py", "../runtime/activation_checkpointing/config.py",
             "../compile/constants.py", "../autotuning/constants.py", "data_pipeline/constants.py"]  # fmt: skip
    constants = {
        name: value
        for path in paths
        if (runtime / path).exists()
        for name, value in _constants(_parsed(runtime / path))
    }
    names = argparse_flags(tree(folder, "launcher/runner.py"))
    names += [(key,) for key in _keys_of(_parsed(runtime / "config.py"), "param_dict", constants)]
    saved = _constants(_parsed(runtime / "activation_checkpointing" / "config.py"))
    names += [
        (f"activation_checkpointing.{value}",)
        for name, value in saved
        if value.upper() in name and "default" not in value
    ]
    known: dict[str, ast.ClassDef] = {}
    for path in ("zero/config.py", "zero/offload_config.py", "tensor_parallel/config.py", "precision_config.py"):
        known |= classes(_parsed(runtime / path))
    zero, tensor = ("DeepSpeedZeroConfig", "zero_optimization"), ("TPTrainingConfig", "tensor_parallel")
    for cls, section in (zero, tensor, ("DeepSpeedBF16Config", "bf16"), ("DeepSpeedFP16Config", "fp16")):
        names += [(f"{section}.{name}",) for name in fields(known, cls)]
    return names


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _constants(module: ast.Module) -> list[tuple[str, str]]:
    return [
        (node.targets[0].id, node.value.value)
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.fullmatch(r"[a-z_0-9]+", node.value.value)
    ]


def _keys_of(module: ast.Module, mapping: str, constants: dict[str, str]) -> Iterator[str]:
    """Yield the keys that a module looks for in a mapping, by constants or by name."""

    def is_mapping(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == mapping

    def said(node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return constants.get(node.id) if isinstance(node, ast.Name) else None

    for node in ast.walk(module):
        key: ast.expr | None = None
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "get_scalar_param" and is_mapping(node.args[0]):
            key = node.args[1]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == f"{mapping}.get":
            key = node.args[0]
        elif isinstance(node, ast.Subscript) and is_mapping(node.value):
            key = node.slice
        elif isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) in (mapping, f"{mapping}.keys()"):
            key = node.left
        if key is not None and (name := said(key)) is not None:
            yield name


def accelerate(folder: Path) -> Names:
    """Return the flags of `accelerate launch` and the keys of its configuration file."""
    names = argparse_flags(tree(folder, "commands/launch.py"))
    known = classes(tree(folder, "config/config_args.py"))
    names += [(name,) for name in fields(known, "ClusterConfig")]
    asked = tree(folder, "config/cluster.py")
    for mapping in ("fsdp_config", "parallelism_config", "dynamo_config"):
        names += subscripts(asked, mapping, f"{mapping}.")
    return names


def transformers(folder: Path) -> Names:
    """Return the flags of transformers' TrainingArguments."""
    known = classes(tree(folder, "transformers/training_args.py"))
    return [(f"--{name}",) for name in fields(known, "TrainingArguments")]


def llama_cpp(folder: Path) -> Names:
    """Return the flags of llama.cpp's programs."""
    text = next(folder.rglob("common/arg.cpp")).read_text(encoding="utf-8")
    calls = re.findall(r"common_arg\(\s*((?:\{[^{}]*\},\s*){1,2})", text)
    return [names for call in calls if (names := tuple(re.findall(r'"(-[^"]+)"', call)))]


def nemo(folder: Path, core: Path, lightning: Path) -> Names:
    """Return the words of NeMo's recipes: of trainer, strategy, data, model, optimizer and precision."""
    pytorch, llm = folder / "nemo" / "lightning" / "pytorch", folder / "nemo" / "collections" / "llm" / "gpt"
    mixed = _parsed(pytorch / "plugins" / "mixed_precision.py")
    names = parameters(tree(lightning, "lightning/pytorch/trainer/trainer.py"), "Trainer", "trainer.")
    names += parameters(
        _parsed(pytorch / "strategies" / "megatron_strategy.py"), "MegatronStrategy", "trainer.strategy."
    )
    names += parameters(mixed, "MegatronMixedPrecision", "trainer.plugins.")
    names += parameters(_parsed(llm / "data" / "mock.py"), "MockDataModule", "data.")
    known = classes(tree(core, "core/model_parallel_config.py")) | classes(
        tree(core, "core/transformer/transformer_config.py")
    )
    known |= classes(_parsed(llm / "model" / "base.py"))
    known |= classes(tree(core, "core/optimizer/optimizer_config.py"))
    known |= classes(tree(core, "core/distributed/distributed_data_parallel_config.py"))
    for cls, prefix in (
        ("TransformerConfig", "model.config."),
        ("GPTConfig", "model.config."),
        ("OptimizerConfig", "optim.config."),
        ("DistributedDataParallelConfig", "trainer.strategy.ddp."),
    ):
        names += [(prefix + name,) for name in fields(known, cls)]
    return names


PROGRAMS: dict[str, Callable[..., Names]] = {
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "llama.cpp": llama_cpp,
    "megatron-core": megatron_core,
    "nemo": nemo,
    "sglang": sglang,
    "torchtitan": torchtitan,
    "transformers": transformers,
    "vllm": vllm,
}


def main(program: str, version: str, date: str, *folders: str) -> None:
    """Write the list of one program."""
    lines = list(dict.fromkeys(" ".join(dict.fromkeys(names)) for names in PROGRAMS[program](*map(Path, folders))))
    head = f"# Arguments of {program} {version}, read on {date}; each line: a flag or key, with its other spellings.\n"
    (HERE / f"{program}.txt").write_text(head + "\n".join(sorted(lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
