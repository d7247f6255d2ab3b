"""Exact search as an ONNX graph: vectors of users in, the best items and their scores out."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ratiorec.errors import ConfigError, require_extra
from ratiorec.export.arrays import ITEM_IDS, write_ids, write_readme, write_users
from ratiorec.export.vectors import Judge, Measured, Vectors
from ratiorec.scorers import FloatMatrix, Indices

GRAPH = "recommend.onnx"
_OPSET = 17  # old enough for the runtimes in use; all that is needed is older still
_IR_VERSION = 8
_MOST_BYTES = 2**31 - 2**20  # a protocol buffer ends there
_SCORES_AT_A_TIME = 2**24


@dataclass(frozen=True)
class Onnx:
    """user_vectors [n, d] and k [1] → scores [n, k] and items [n, k], which are places of ids."""

    name: ClassVar[str] = "onnx"

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
        onnx = require_extra("onnx", "onnx", where="--to onnx")
        if vectors.items.nbytes > _MOST_BYTES:
            raise ConfigError(
                "the vectors do not fit into an ONNX file",
                where="--to onnx",
                found=f"{vectors.items.nbytes:,} bytes of item vectors",
                wanted=f"{_MOST_BYTES:,} bytes at most, or --to faiss",
            )
        content = _model(onnx, vectors.items).SerializeToString()
        search, engine = _search_in(content, vectors.n_items)
        settings = {
            "search": "exact",
            "dimension": vectors.dimension,
            "opset": _OPSET,
            "checked_by": engine,
        }
        measured = judge.first_that_reaches([(settings, judge.lists(search))])
        (folder / GRAPH).write_bytes(content)
        write_users(vectors, folder)
        write_ids(vectors.item_ids, folder / ITEM_IDS)
        write_readme(
            folder,
            f"{GRAPH}: user_vectors (rows of user_vectors.npy) and k in, scores and items out.",
            "items are places in item_ids.json; rows are places in user_ids.json.",
            "Items that a user has already are among the best: ask for more and drop them.",
        )
        return measured


def _model(onnx: Any, items: FloatMatrix) -> Any:
    """scores = user_vectors · itemsᵀ, then the k largest of each row."""
    helper, number = onnx.helper, onnx.TensorProto
    vectors_in = helper.make_tensor_value_info("user_vectors", number.FLOAT, ["n", items.shape[1]])
    k_in = helper.make_tensor_value_info("k", number.INT64, [1])
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["user_vectors", "item_vectors"], ["all"], transB=1),
            helper.make_node("TopK", ["all", "k"], ["scores", "items"], axis=1),
        ],
        "recommend",
        [vectors_in, k_in],
        [
            helper.make_tensor_value_info("scores", number.FLOAT, ["n", "k"]),
            helper.make_tensor_value_info("items", number.INT64, ["n", "k"]),
        ],
        [onnx.numpy_helper.from_array(items, "item_vectors")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    onnx.checker.check_model(model)
    return model


def _search_in(content: bytes, n_items: int) -> tuple[Callable[[FloatMatrix, int], Indices], str]:
    """The graph as onnxruntime runs it where that is installed, else as ONNX itself defines it."""
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        run = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run
        engine = f"onnxruntime {onnxruntime.__version__}"
    else:
        onnx = require_extra("onnx.reference", "onnx", where="--to onnx")
        run, engine = onnx.ReferenceEvaluator(content).run, "the reference evaluator of onnx"

    def search(users: FloatMatrix, k: int) -> Indices:
        step = max(1, _SCORES_AT_A_TIME // n_items)
        blocks = (users[start : start + step] for start in range(0, len(users), step))
        length = np.array([min(k, n_items)])  # beyond, TopK fails
        found = [run(["items"], {"user_vectors": block, "k": length})[0] for block in blocks]
        return np.concatenate(found)

    return search, engine
