"""A model in forms that other programs search: Parquet, numpy, FAISS, ONNX, pgvector.

`Vectors` are a model whose scores are inner products, or vectors that come near to its lists
(`LowRank`). A form writes them, an `ExportTrial` holds what was written against the model's exact
lists, and what finds too little is not kept.
"""

from ratiorec.export.arrays import NumpyArrays, ParquetTables
from ratiorec.export.exporting import FORMS, Exported, export, export_to_postgres
from ratiorec.export.faiss_index import Faiss
from ratiorec.export.low_rank import LowRank
from ratiorec.export.onnx_graph import Onnx
from ratiorec.export.pgvector import Pgvector
from ratiorec.export.vectors import ExportTrial, Vectors

__all__ = [
    "FORMS",
    "ExportTrial",
    "Exported",
    "Faiss",
    "LowRank",
    "NumpyArrays",
    "Onnx",
    "ParquetTables",
    "Pgvector",
    "Vectors",
    "export",
    "export_to_postgres",
]
