"""Code holds mathematics: constants of physics stand in hardware/constants, with unit, meaning, source and plausible range."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofsim.analyze.catalogs import constant_rows, entry
from roofsim.api import resolve
from roofsim.cost.kernels.models.attention import DecodeConstants, PrefillConstants
from roofsim.cost.kernels.models.experts import ExpertConstants
from roofsim.cost.kernels.models.gemm import GemmConstants, Tiling
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec import catalog
from roofsim.spec.constants.kernel_models import shipped_models
from roofsim.spec.constants.kernels import Constants
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.reading.source import read_yaml
from tests.scenarios import evaluated

ROOT = Path(__file__).resolve().parents[2] / "roofsim"

#: What is no part of a prediction, and what describes published networks, whose sizes are facts of theirs.
OUTSIDE = (
    "cli/", "report/", "schema/", "importers/", "units.py", "output.py", "errors.py", "numeric.py", "records.py", "kept.py",
    "spec/model/", "spec/reading/", "lower/vision/", "calibrate/microbenchmark/", "capture/", "traces/", "oracle/", "web/",
    "agents/",
)  # fmt: skip
#: Rooms whose formulas hold no number but those of mathematics; elsewhere numbers stand in sizes of published networks (lower)
#: and in counts, places and shown digits.
FORMULAS = ("cost/", "memory/", "passes/", "schedule/", "serve/", "analyze/", "graph/ops/", "lower/blocks/")
#: Numbers of mathematics: neutral elements, a multiply-add's two FLOPs, halves and squares.
PLAIN = {0, 1, 2, 0.5}
#: What shows or rounds numbers, and what asks for so many elements: not physics.
SHOWING = {"humanize", "round", "range", "lru_cache", "cache", "len", "linspace", "geomspace"}

#: Numbers that modules may hold, by what they are. A new one here is a decision: physics goes to hardware/constants.
#: `NAME`: a module's own; `Class.field` and `function(argument)`: a default; a number: in a formula.
ALLOWED: dict[str, set[str | float]] = {
    # counts, codes and units
    "cost/kernels/roofline.py": {"COMPUTE", "MEMORY_BANDWIDTH", "LAUNCH"},
    "schedule/pipeline/protocol.py": {"FORWARD", "BACKWARD", "WEIGHTS", 3},  # columns of a piece of work
    "schedule/pipeline/forms.py": {3},
    "analyze/money.py": {"HOURS_PER_MONTH", "SECONDS_PER_HOUR", "JOULES_PER_KWH", "MILLION"},
    "analyze/distance.py": {"GIBIBYTE"},
    "spec/prices.py": {"OLD_AFTER"},
    "lower/captured/context.py": {"TYPES", "PACKED_4"},
    "lower/captured/parallelize.py": {"_WEIGHTS"},  # which operand and dimension
    "lower/captured/splits.py": {"_BATCH", "_LENGTH", "MOST_PARTS"},  # primes at which polynomials are compared
    "lower/captured/heavy.py": {"_GATES"},  # products of a cell, as blocks/recurrent_cells has them
    "lower/blocks/boxes.py": {"MASK_BITS"},  # bits of a word
    # places of arguments, how many lists a call works on, and how long a text is read
    "lower/captured/layouts.py": {"_CHANNELS_SECOND"},  # axes
    "lower/recorded/call.py": {"_LONGEST"},
    "lower/recorded/gradients.py": {"_NORMS"},
    "lower/recorded/graph.py": {"_READS"},
    "lower/recorded/lists.py": {"_FUSED"},
    # how many ops a pattern has at most
    "lower/captured/attention_pattern.py": {"_LONGEST"},
    "lower/captured/patterns.py": {"_ACTIVATIONS", "_NORM_OPS"},
    "spec/hardware/stacks.py": {"_ROUNDED"},
    "decide/assumptions.py": {"_SUFFIXES"},
    "decide/long_job.py": {"_DAY", "_HOUR", "_GRAMS", "_MOST"},
    "decide/affordable.py": {"HOURS", "_WORTH", "_LEAST", "_NAMED"},
    "decide/budget.py": {"MOST", "_MORE"},
    "decide/measurement.py": {"_DECIDES", "_STANDS_OUT"},
    "decide/remedies.py": {"_SAME", "_OTHER"},
    "decide/sentences.py": {"_NOTICED", "_SHOWN_FROM"},
    "decide/owned.py": {"_HOURS", "_MONTHS", "_KILO"},
    "decide/power.py": {"_AS_FAST", "_HALVINGS", "_LIMITS"},
    "report/power.py": {"_NOTHING"},
    "report/budget.py": {"_MOST", "_REFUSED"},
    # how far limits of power were tried
    "spec/settle/held.py": {"MEASURED", "LEAST"},
    "spec/price_file.py": {"_MOST"},
    "analyze/ops.py": {"_NOTHING"},
    "analyze/explain.py": {"_CAUSED"},
    "analyze/explained_ops.py": {"SHOWN"},
    "analyze/timeline/passes.py": {"WRITTEN", "MOST_OPS", 100},
    "calibrate/kernels/classes.py": {"MICROSECOND", "ITEMSIZES", "FLOOR", "COMPUTE", "BANDWIDTH"},
    "calibrate/kernels/table.py": {"SIZES", "MICROSECOND"},
    "memory/blocks.py": {
        # the allocator of PyTorch, by its source (c10/cuda/CUDACachingAllocator.cpp)
        "KIB", "MIB", "GRANULE", "SMALL", "SMALL_SEGMENT", "LARGE_SEGMENT", "MIDDLE", "SEGMENT_GRANULE", "ADDRESSES",
    },
    "memory/profile.py": {"ALLOCATION_GRANULE"},
    "memory/allocator.py": {"_UNBOUNDED", "FREE", 8},
    "memory/events.py": {"MICRO_BATCHES", "STEPS"},
    "passes/adapters.py": {4},
    "passes/manager.py": {4, 8},
    "passes/stored.py": {8},
    # what an op, an algorithm or a number format is by definition: FLOPs of a function, taps, tiles, bytes of an element
    "graph/tensor.py": {
        "FP32", "TF32", "FP16", "BF16", "FP8", "FP4", "MXFP8", "MXFP4", "NVFP4", "INT64", "INT32", "INT8", "INT4", "Q8_0",
        "Q4_0", "BOOL", "AUTO",
    },
    "graph/ops/light.py": {"ELEMENTWISE_FLOPS", "_READS_IN_PLACE", "_WRITES_IN_PLACE", 3, 4, 5, 7, 8, 12},
    "graph/ops/heavy.py": {0.75, 3, 9},
    "graph/ops/host.py": {"HostUpdate.flops_per_element"},
    "graph/ops/composite.py": {"OptimizerUpdate.flops_per_element"},
    "graph/ops/indexed.py": {4},
    "graph/topology.py": {"CUBE_MESH_6", "CUBE_MESH_4", "DIE_MESH", "ROUNDING"},
    "cost/kernels/models/gemm.py": {"TILES", "SPLITS", "_THINNESS", "K_STEP", "PARTIAL_BYTES", "_FEW", "_PARTIAL", "_AT_ONCE"},
    "cost/kernels/models/convolution.py": {
        "TILES", "POINT_TILES", "MATRIX_WIDTH", "PATCHES", "FUSED_CHANNELS", "FUSED_AREA", "FUSED_POINTS", "STAGED_SIDE",
        "STAGED_POINTS", "STEP", "FULL_BLOCK", "ALIGNMENT", "FEW_CHANNELS", "STAGED_LAUNCHES", "FLAT", "SPARED", "SQUARE", 64,
    },
    "cost/kernels/models/attention.py": {"QUERY_TILE", "GROUP_TILE"},
    "cost/kernels/models/experts.py": {"PERMUTE_BYTES", 1e-12},
    "cost/kernels/attention.py": {"HEAD_TILES", "WIDEST", "WHOLE", "STATED_WIDTH"},
    "cost/kernels/experts.py": {"PRODUCTS_OF_A_LAYER"},
    "cost/kernels/ops.py": {"FIRST_CHANNELS"},
    "cost/kernels/rated.py": {"WIDTHS"},
    "cost/links/collectives.py": {"ROUNDS"},
    "passes/kernels/narrow_results.py": {"WIDE", "READ"},
    "passes/kernels/plain_kernels.py": {"PARTS", 3},
    "passes/optimizer/newton_schulz.py": {"STEPS", 3, 4, 5, 6},
    "passes/optimizer/products.py": {"_CONVOLUTION"},
    "passes/optimizer/low_rank.py": {"RANK", "_READS", "_WRITES", 3, 4, 12},
    "passes/optimizer/preconditioners.py": {
        "SOAP_LONGEST", "SOAP_EVERY", "_SOAP_PRODUCTS", "_SOAP_BASIS", "SHAMPOO_BLOCK", "_SHAMPOO_PRODUCTS", 3,
    },
    "passes/optimizer/step.py": {"_BYTE", 8},
    "passes/optimizer/beside.py": {"ELEMENTS_PER_LAUNCH", "TENSORS_PER_LAUNCH"},
    "spec/precision/formats.py": {"BITS_IN_NAMES"},
    "spec/precision/gguf.py": {"SMALL_VALUES", "EIGHT_EXPERTS", "GROUPS_OF_70B", "LAYERS_OF_70B"},
    "spec/precision/encodings.py": {"WeightPosition.columns", "WeightPosition.rows"},
    # rules of published software, named by file and function beside them
    "passes/optimizer/methods.py": {"StateCode.smallest"},
    "passes/partition/keep.py": {"SMALL", "PER_STEP", "MOST_STEPS", "UNWRITTEN", "LONG_CHAIN"},
    "lower/blocks/attention.py": {3, 32, "WIDEST_FLASH_HEAD"},
    "lower/blocks/beams.py": {"KEPT"},
    "lower/blocks/masks.py": {"BITS", "_WORD"},
    "lower/blocks/delta_net.py": {"CHUNK"},
    "lower/blocks/exchange.py": {3},
    "lower/blocks/lightning.py": {3},
    "lower/blocks/projections.py": {3},
    "lower/blocks/receptance.py": {"SUMS", "STATES"},
    "lower/blocks/recurrent_cells.py": {"GATES"},
    "lower/blocks/sparse_mixer.py": {"ROUNDS"},
    "lower/blocks/selective_scan.py": {"SCAN_CHUNK"},
    "lower/blocks/relative_bias.py": {"ROW_ALIGNMENT"},
    "lower/diffusion/mmdit.py": {"BLOCK_PARTS", "SECOND_PARTS"},
    "lower/diffusion/parts.py": {"TIME_WIDTH"},
    "lower/diffusion/pipeline.py": {"GUIDANCE_KERNELS", "SCHEDULER_KERNELS", "FLOW_KERNELS"},
    "serve/limits.py": {"SLOT_PAD"},
    # defaults of the user's words, as the libraries have them that these describe (PEFT, vLLM)
    "spec/scenario/adapter.py": {"Adapter.rank", "Adapter.alpha", "Adapter.dropout"},
    # means of a public benchmark, named beside them
    "spec/scenario/guided.py": {"MASK_TIMES"},
    "spec/scenario/serving.py": {"LoraServing.rank"},
    "spec/settle/sizes.py": {"DEFAULT_LENGTH", "DEFAULT_OUTPUT"},
    # how far closed forms are from their simulation: mathematics, which tests measure
    "schedule/pipeline/interleaved.py": {"Interleaved.accuracy"},
    "schedule/pipeline/one_forward_one_backward.py": {"OneForwardOneBackward.accuracy"},
    "schedule/pipeline/zero_bubble.py": {"ZeroBubble.accuracy"},
    "schedule/pipeline/zero_bubble_v.py": {"ZeroBubbleV.accuracy"},
    # steps, rounds, meshes and bounds of a method
    "analyze/bottleneck.py": {"_AGREE", "_CUTS", "_FACTORS", "_NARROW", "_STEP"},
    "analyze/collectives.py": {"LARGEST", "MOST_RANKS", "NODES"},
    "analyze/goodput.py": {"_FULL", "HOPELESS", 3, 9, 700},
    "analyze/op_graph.py": {"MOST_NODES"},
    "analyze/sensitivity.py": {"STEP", "_OF_POINTS"},
    "analyze/shares.py": {"NEGLIGIBLE"},
    "analyze/timeline/build.py": {"MOST_PIECES", 3},
    "analyze/verdicts.py": {"_END", 4},
    "calibrate/bounded.py": {"_HALVINGS"},
    "calibrate/kernels/fit.py": {"HELD", "MOST_SPEEDUP", "SHORTEST", "UNKNOWN_YEAR", "YEARS_A_DOUBLING"},
    "calibrate/kernels/least_squares.py": {"MOST_STEPS", "STEP", "TOLERANCE"},
    "calibrate/kernels/shapes.py": {"CACHE", "HELD", "LATENT_POSITION", "LATENT_WIDTH", "LONG_ROW", "SWEEPS", "TILING"},
    "calibrate/overlay.py": {"CACHES", "IMPOSSIBLE", "LONG", "MICROSECOND", "_LEAST", "_MOVED"},
    "calibrate/score.py": {"FEWEST_FOR_RANKS", "NOMINAL_COVERAGE"},
    "search/written_axes.py": {"MOST_VALUES", "_DIGITS", "_SLACK"},
    "compare/instead.py": {"_DEEPEST", "_FEWER", "_MOST_TRIED"},
    "compare/winners.py": {"_TIE"},
    "decide/advice.py": {"LEAST"},
    "decide/causes.py": {"MOST_ORDERED"},
    "decide/explained.py": {"_CLOCKS", "_CLOSES", "_EDGE", "_LITTLE", "_MOST", "_NARROWINGS", "_NUMBERS", "_OF_A_GROUP"},
    "spec/catalog.py": {"_NAMED_AT_MOST", "_NEAR_AT_MOST"},
    "decide/free.py": {"_LEAST_BITS", "_LOOKED_AT", "_NAMED", "_RETURNED", "_SAME", "_WIDTHS"},
    "decide/gate.py": {"EXIT_CODES", "_SAME"},
    "decide/revisions.py": {"_MOST_BYTES", "_MOST_FILES"},
    "decide/market.py": {"_LEVEL", "_FREE"},
    "decide/timed_kernels.py": {"MICROSECOND", "_ALIKE", "_TENSOR", "_WIDTHS"},
    "decide/prices.py": {"IDLE", "NOTHING", "END"},
    "decide/purchases.py": {"_MORE", "_MOSTLY", "_NOTICED"},
    "decide/need.py": {"MULTIPLES", "_ROUNDING"},
    "decide/target.py": {"_DAY"},
    "spec/settle/clocks.py": {"_MULTIPLY_ADD"},
    "decide/mixes.py": {"_CUTS", "_LEAST_PRICE", "_MOST_STRIDES", "_STRIDE", "_WORTH"},
    "decide/resources.py": {"_CUTS", "_GRID", "_ROUNDED", "_ROUNDS", "_SAME", "_TRIED"},
    "cost/kernels/products.py": {"MOST_PRODUCTS"},
    "cost/kernels/random_access.py": {"_NEAR_ONE", 12},
    "cost/links/communication.py": {"_UNLIMITED"},
    "cost/links/fabric.py": {"PROBED", "_NOTHING", 4},
    "cost/priced_kernels.py": {"_MOST_REMEMBERED"},
    "cost/stacks.py": {"MOST_ELEMENTS", "_MANY"},
    "program.py": {"CONTEXT_POINTS", "PIECE_POINTS"},
    "schedule/pipeline/makespan.py": {"MOST_ELEMENTS"},
    "schedule/pipeline/compiled_runs.py": {"FROM", 6, 7},  # from how much work on loops are compiled; arguments of these
    "schedule/pipeline/plan.py": {"_MOST_PIECES"},  # pieces of work that are kept
    "schedule/pipeline/simulation.py": {"ALIKE", "AT_ONCE", "FEW", "MEASURED", "MOST_WORK", "PATHS", "SETTLED", "WEIGHT_SHARE", 3},
    "schedule/staged.py": {"_HALVINGS"},
    "search/families.py": {"MOST_RESOLVED"},
    "search/fitting/candidates.py": {"MULTIPLES", "_CARDS", "_SHORTER", "_SHORTEST"},
    "search/fitting/changes.py": {"MOST_TOGETHER", "MOST_TRIED"},
    "search/fitting/layouts.py": {"MICRO_BATCHES", "MOST_GPUS", "_GAIN", "_PATIENCE", "_SMALLEST_NODE"},
    "search/fitting/models.py": {"_BEYOND"},
    "search/fitting/sizes.py": {"LIMITS", "_HALVINGS", "_IMAGE_STEPS"},
    "api.py": {"serve(top)"},
    "plans.py": {"TOP"},
    "search/planning/asked.py": {"MOST_GPUS"},
    "search/planning/blocks.py": {"MOST_PAIRS", "MOST_ROWS", "_FIRST", "_GROWING", "_NAME", "_SEARCHERS", "_STRIDE"},
    "search/planning/bounds.py": {"SLACK", "_SLOWED"},
    "search/planning/classes.py": {"_TOGETHER"},
    "search/planning/choices.py": {"_LEAST_TOKENS", "_MOST_DIVISORS", "_MOST_SAMPLES"},
    "search/planning/differences.py": {"_LEAST", "_MOST"},
    "search/planning/findings.py": {"_DIGITS"},
    "search/planning/layer_costs.py": {"DEPTHS", "_LOOKED"},
    "search/planning/layer_table.py": {"MOST_ALIKE"},
    "search/planning/plan.py": {"plan_asked(k)"},
    "search/planning/priced.py": {"_LATEST"},
    "search/planning/robustness.py": {"CANDIDATES", "WIDEST", "_POINTS"},
    "search/planning/search.py": {
        "FIRST_RESOLVED",
        "FIRST_TOGETHER",
        "MOST_TOGETHER",
        "REPLAYED_FROM",
        "Searcher.k",
        "_DIGITS_OF_ORDER",
        "_LOOKED_AT",
        "_TOGETHER",
    },
    "search/planning/building.py": {"BATCHES", "MOST_SAMPLES"},
    "search/planning/space.py": {"ALONE"},
    "search/planning/winners.py": {"MOST_FRONT"},
    "search/planning/workers.py": {"_STARTS", "_WAITING"},
    "search/serving/asked.py": {"RANKS", "STAGES", "WORKERS"},
    "search/serving/rivals.py": {"_SMALL"},
    "search/serving/search.py": {"_ROUNDING", "search_servers(k)"},
    "search/sweep.py": {"MOST_POINTS", "MOST_TOGETHER", "REPLAYED_FROM"},
    # how many points a table may have, are looked at, worked out at once or tried; from how many on a loop is compiled
    "search/table.py": {"_MANY"},
    "search/whole.py": {"NOT_OWN", "_REST", "_TRIED"},
    "traced/open_mesh.py": {"AT_A_TIME", "COMPILED", "_HELD", "_LARGE"},
    "traced/scalar_graph.py": {"_MOST_POWER"},  # of a soft maximum that is written as a sum of powers
    "traced/soft_maxima.py": {"_ROUNDED"},
    "traced/unrolled.py": {"MOST_SCALARS"},
    "traced/compiled_mesh.py": {"_MAGIC", "_MAGIC_BITS", "_ROOT_HALF"},  # parts of a logarithm
    "search/crossing.py": {"CHECKED", "_MOST_AXES"},
    "search/sampling.py": {"MOST_VALUES"},
    "search/planning/engines.py": {"_TRIED"},
    "search/mesh.py": {"_AGREES", "_ALONE", "_LOOKED", "_MOST", "_TRIED"},
    "search/product.py": {"AT_ONCE", "_MANY", "_TRIED"},
    "search/grid_program.py": {"_RARE"},
    "traced/notes.py": {"SAMPLES"},
    "traced/points.py": {"_NEUTRAL", "_SPARE"},
    "traced/forms.py": {"_GAIN", "_POWERS", "_TERMS", "_USERS"},
    "traced/keys.py": {"_DENSE", "_FEW", "_SPARSE"},
    "traced/replay.py": {"AT_ONCE", "_KEPT", "_LARGE"},
    "traced/compiled.py": {"LANES"},
    "traced/grid.py": {"_MOST_KNOWN", "_MOST_ROWS", "_SHORT"},
    "serve/bounds.py": {"_ROWS"},
    "serve/closed_loop.py": {
        "_CLOSE", "_FAR", "_FEW", "_MANY", "_NEW", "_POINTS", "_ROUNDS", "_SHARP", "_SHARP_ALIKE", "_SIZES", 4, 8, 12,
    },
    "serve/disaggregated.py": {"_CLOSE", "_MOMENTS", "_NEARLY", "_ROUNDS", 4096},
    "serve/conditioning.py": {"_LESS"},
    "serve/fetched.py": {"_HALVINGS"},
    "serve/full_steps.py": {"_ROUNDING"},
    "serve/host_cache.py": {"NEARLY"},
    "serve/one_pass/answer.py": {"PERCENTS", "_HALVINGS_OF_ENDS"},
    "serve/one_pass/batching.py": {
        "_BATCHES", "_DEVIATIONS", "_HALVINGS", "_PLACES", "_QUEUES", "_RARE", "_REQUESTS", "_STATES", 0.001, 100,
    },
    "serve/one_pass/plan.py": {"_LARGEST", "_WORTH"},
    "serve/one_pass/simulation.py": {"_BATCHES", "_REQUESTS", "_WARM"},
    "serve/latencies.py": {
        "_ALMOST", "_BEFORE", "_BRIEF", "_LEAST", "_LENGTHS", "_LIVES", "_MOMENTS", "_NEVER", "_POINTS", "_RARE", "_ROUNDING",
        "_SHORTEST", 3, 9,
    },
    "serve/open_loop.py": {"_ALMOST", "_NUMBERS", "_PLACES", "_ROUNDS", 3},
    "serve/plan.py": {"_DOUBLINGS"},
    "serve/request_log.py": {"_DRAWN", "_MOST", "_WIDEST", "_WILDEST"},
    "serve/room.py": {"_LENGTHS", "_LONGEST"},
    "serve/served.py": {"PERCENTS"},
    "serve/server.py": {"_GUESSES"},
    "serve/variation.py": {"_ALMOST", "_EDGES", "_EVEN", "_LEFT", "_SELDOM", "_SERVICES"},
    "serve/simulation.py": {"_EACH", "_GAPS", "_LEAST", "_PERCENTS", 0.1, 0.2, 0.9, 5, 10},
    "serve/sized.py": {"_MOST", "_PROBE", "_ROUNDING", "_SELDOM"},
    "serve/sizing.py": {"LAXER", "_COUNTS", "_DOUBLINGS", "_HALVINGS", "_ROUGHLY"},
    "serve/spread.py": {"_APART", "_FAR", "_HALVINGS", "_RAREST", "_SHARES", 100},
    "serve/target.py": {100},
    "serve/surface.py": {"CONTEXT_POINTS", "POINTS_PER_DOUBLING"},
    "serve/timing.py": {"_CLOSE", "_MOST"},
    "serve/waiting_prompts.py": {"_NEVER", "_ROUNDING", "_TOGETHER", "_USUALLY", "_WAITING"},
    "serve/whole_run.py": {"LONG", "_EVENTS", "_LENGTHS", "_SPREAD", 0.1},
    "spec/engine/choice.py": {"_FIRST_YEAR", "_MIDDLE", "_MONTHS"},
    "spec/own_prices.py": {"_MOST"},
    "spec/settle/cards.py": {"_MOST"},
    "spec/usual.py": {"LATENCY_PERCENTILE", "TARGET_PERCENTILE"},
    "spec/settle/hardware.py": {"SPARSE_SUSPICION", "_SHOWN"},
    "structures.py": {"_FIRST", "_MOST", "_SERVED"},
    "templates.py": {"_MOST_FORMS", "_MOST_WAYS"},
    "graph/bound.py": {"_MOST_WAYS"},
    "symbols.py": {"_WIDTH"},
}  # fmt: skip


#: What an expression is made of.
PARTS = {
    ast.UnaryOp: ("operand",), ast.BinOp: ("left", "right"), ast.Tuple: ("elts",), ast.List: ("elts",), ast.Dict: ("values",),
}  # fmt: skip


def is_number(node):
    """Tell whether a node is a number that somebody wrote down."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def holds_a_number(node):
    """Tell whether an expression is made of numbers that somebody wrote down."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") == "parse" or any(map(holds_a_number, node.args))
    held = [getattr(node, name) for name in PARTS.get(type(node), ())]
    return is_number(node) or any(
        holds_a_number(each) for part in held for each in (part if isinstance(part, list) else [part])
    )


def numbers_of(tree):
    """Return the names of a module's own numbers."""
    for node in tree.body:
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        if value is not None and holds_a_number(value):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def default_of(value):
    """Return the expression that a field or an argument is by default: of ``Field(default=...)``, that inside."""
    if not isinstance(value, ast.Call):
        return [value]
    if getattr(value.func, "id", "") in ("Field", "field"):
        return [each.value for each in value.keywords if each.arg == "default"] + value.args[:1]
    return [*value.args, *(each.value for each in value.keywords)]


def telling(expression):
    """Tell whether a default holds a number other than those of mathematics."""
    return any(is_number(each) and getattr(each, "value", 0) not in PLAIN for each in ast.walk(expression))


def defaults_of(tree):
    """Return `Class.field` and `function(argument)` of numbers that are defaults."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
                value = getattr(line, "value", None)
                if isinstance(target, ast.Name) and value is not None and any(map(telling, default_of(value))):
                    yield f"{node.name}.{target.id}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args]
            given = positional[len(positional) - len(node.args.defaults) :]
            pairs: list[tuple[ast.arg, ast.expr | None]] = [*zip(given, node.args.defaults, strict=True)]
            pairs += [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
            yield from (f"{node.name}({one.arg})" for one, value in pairs if value is not None and telling(value))


class Formulas(ast.NodeVisitor):
    """Collect the numbers that stand in the expressions of functions, those of mathematics apart."""

    def __init__(self):
        self.numbers = []
        self.inside = 0

    def visit_FunctionDef(self, node):
        """Look at what a function computes; defaults are taken elsewhere."""
        self.inside += 1
        for line in node.body:
            self.visit(line)
        self.inside -= 1

    def visit_Call(self, node):
        """Leave out digits, places and counts of what shows, rounds or lists."""
        shows = getattr(node.func, "id", getattr(node.func, "attr", "")) in SHOWING
        self.visit(node.func)
        for given in (*node.args, *(each.value for each in node.keywords)):
            if not (shows and is_number(given)):
                self.visit(given)

    def visit_Subscript(self, node):
        """Leave out places in a sequence."""
        self.visit(node.value)

    def visit_BinOp(self, node):
        """Leave out powers of two: bits, and steps of a method's tolerance."""
        if not (isinstance(node.op, ast.Pow | ast.LShift) and is_number(node.left) and node.left.value in (1, 2)):
            self.generic_visit(node)

    def visit_JoinedStr(self, node):
        """Leave out text."""

    def visit_Constant(self, node):
        """Take a number."""
        if self.inside and is_number(node) and node.value not in PLAIN:
            self.numbers.append(node.value)


def formulas_of(tree):
    """Return the numbers of a module's formulas."""
    formulas = Formulas()
    formulas.visit(tree)
    return formulas.numbers


def written_in(path):
    """Return all numbers of a module that might be physics."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    place = path.relative_to(ROOT).as_posix()
    formulas = formulas_of(tree) if place.startswith(FORMULAS) else []
    return {*numbers_of(tree), *defaults_of(tree), *formulas}


def modules():
    """Return the modules that predict, by place."""
    paths = sorted(ROOT.rglob("*.py"))
    return {place: path for path in paths if not (place := path.relative_to(ROOT).as_posix()).startswith(OUTSIDE)}


def test_code_holds_no_physics():
    numbers = []
    for place, path in modules().items():
        unknown = written_in(path) - ALLOWED.get(place, set())
        numbers += [f"roofsim/{place}: {each}" for each in sorted(unknown, key=str)]
    assert numbers == [], "constants of physics belong to hardware/constants/physics.yaml"


def test_nothing_is_allowed_that_is_gone():
    for place, allowed in ALLOWED.items():
        assert (ROOT / place).exists(), place
        assert allowed <= written_in(ROOT / place), f"{place}: {allowed - written_in(ROOT / place)}"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("RATE = 0.35", "RATE"),
        ("RATES: Final = {'bf16': 0.35}", "RATES"),
        ("class Kernel:\n    softmax: Real = 0.05", "Kernel.softmax"),
        ("class Facts:\n    issue: float = Field(default=6e-6, description='time')", "Facts.issue"),
        ("class Schedule:\n    error = Accuracy(rounds=0.16)", "Schedule.error"),
        ("def time(work, *, share=0.8): ...", "time(share)"),
        ("def time(work):\n    return work / 0.8", 0.8),
        ("def time(work):\n    return min(corner(work, 3.0), 4.0)", 3.0),
    ],
)
def test_physics_in_code_is_noticed(code, number):
    tree = ast.parse(code)
    assert number in {*numbers_of(tree), *defaults_of(tree), *formulas_of(tree)}


@pytest.mark.parametrize(
    "code",
    [
        "def flops(m, n, k):\n    return 2.0 * m * n * k",
        "def shown(x):\n    return humanize(x, 's', 4)",
        "def few(x):\n    return x[3] ** 0.5 + 2.0**-24",
        "class Shape:\n    batch: float = 1.0",
    ],
)
def test_mathematics_is_no_physics(code):
    tree = ast.parse(code)
    assert {*numbers_of(tree), *defaults_of(tree), *formulas_of(tree)} == set()


def test_nothing_restates_what_the_files_of_constants_say():
    """A constant of a file is required by what reads it: no default stands beside it in code."""
    written = read_yaml(catalog.root() / "hardware" / "constants" / "steps.yaml").data
    own = {name for name, each in Constants.model_fields.items() if not each.is_required()}
    assert own & set(written) <= {"schema_version", "physics", "spreads", "sources", "fitted", "architectures", "gpus"}
    kinds: tuple[Any, ...] = (GemmConstants, PrefillConstants, DecodeConstants, ExpertConstants, Tiling)
    for kind in kinds:
        with pytest.raises(TypeError, match="missing"):
            kind()


def test_constants_are_plausible_and_say_what_they_are():
    constants = shipped_physics().constants
    assert len(constants) > 35
    for name, constant in constants.items():
        low, high = constant.range
        assert low < high, name
        assert constant.si(low) <= shipped_physics()[name] <= constant.si(high), name
        assert len(constant.meaning) > 20, name
        assert len(constant.source) >= 4, name


def test_kernel_models_are_plausible_and_say_what_they_are():
    models = shipped_models()
    for operation, architectures in models.classes.items():
        meanings = models.meanings[operation]
        used = {
            name
            for libraries in architectures.values()
            for kinds in libraries.values()
            for numbers in kinds.values()
            for name in numbers
        }
        assert used <= set(meanings), operation
        for name, meaning in meanings.items():
            low, high = meaning.limits()
            assert 0.0 <= low < high < math.inf, (operation, name)


def calibrated(tmp_path, **physics):
    """Return a step with other constants, by a calibration file."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "gpu": "a100-sxm4-80gb", "physics": physics}), encoding="utf-8")
    workload = {"precision": "bf16", "micro_batch_size": 8, "hardware_gpu": "a100-sxm4-80gb"}
    return evaluated("gpt2-1558m", hardware_calibration=str(path), **workload)


def test_constants_of_a_calibration_reach_the_links(tmp_path):
    """Transfers inside nodes and between them overlap as the scenario's constants say, not as the catalog's."""
    seconds = []
    for overlap in (1.0, 4.0):
        path = tmp_path / f"{overlap}.yaml"
        path.write_text(
            yaml.safe_dump({"schema": 1, "gpu": "a100-sxm4-80gb", "physics": {"node_overlap": overlap}}),
            encoding="utf-8",
        )
        workload = {"precision": "bf16", "global_batch_size": 64, "micro_batch_size": 1}
        hardware = {"system": "dgx-a100", "gpus": 64, "calibration": str(path)}
        scenario = {"model": "gpt2-1558m", "workload": workload, "hardware": hardware, "parallel": {"data": 64}}
        seconds.append(float(evaluate(resolve(scenario)).step.step))
    assert seconds[0] > 1.001 * seconds[1]


def test_a_calibration_file_puts_other_constants_in_their_place(tmp_path):
    usual, slower = calibrated(tmp_path), calibrated(tmp_path, attention_backward_rate=0.5)
    assert float(slower.step.step) > 1.005 * float(usual.step.step)
    steeper = calibrated(tmp_path, clock_power=3.0)
    assert float(steeper.step.step) < float(usual.step.step)
    slow_host = calibrated(tmp_path, host_call_time=58.0)
    assert float(slow_host.step.host) > 1.2 * float(usual.step.host)


def test_the_corners_of_kernel_models_are_those_of_a_calibration_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "physics": {"decode_grid_corner": 1.0}}), encoding="utf-8")
    decode = {"phase": "decode", "context_length": 1024, "precision": "fp16", "engine": "vllm", "hardware_gpu": "h100"}
    usual = evaluated("llama3-8b", **decode)
    wider = evaluated("llama3-8b", **decode, hardware_calibration=str(path))
    assert float(wider.step.step) > 1.0001 * float(usual.step.step)


def test_files_of_constants_are_listed():
    rows = {row["name"]: row["description"] for row in constant_rows()}
    assert {"physics", "steps", "kernel_models", "links"} <= set(rows)
    assert all(10 < len(said) < 300 for said in rows.values()), rows


def test_constants_are_shown():
    shown = entry("physics", None)
    assert shown["contention"] == "0.95 (0.5 to 1)"
    assert shown["plain_decode_start"].startswith("1.8 us")
    assert set(shown["sources"]) == set(shipped_physics().constants)
    assert set(entry("physics", "clock_power")) == {"kind", "name", "clock_power", "sources"}
    with pytest.raises(SpecError, match="no physical constant"):
        entry("physics", "contentoin")


@pytest.mark.parametrize(
    ("physics", "said"),
    [
        ({"contention": 3.0}, "contention: 3 lies outside of its plausible range, 0.5 to 1"),
        ({"contentoin": 0.9}, "contention"),
    ],
)
def test_what_is_not_plausible_is_refused(tmp_path, physics, said):
    with pytest.raises(SpecError, match=said):
        calibrated(tmp_path, **physics)
