"""The examples of docs/export.md, run as they stand there."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.export import FORMS, export
from support.random_vectors import vector_model

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
NEEDS = {"numpy": "numpy", "parquet": "pyarrow", "faiss": "faiss", "onnx": "onnxruntime"}


@pytest.mark.parametrize(("form", "example"), list(zip(NEEDS, EXAMPLES, strict=True)))
def test_an_example_reads_the_lists_of_the_model(
    form: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(NEEDS[form], reason=f"the package for {form} is not installed")
    plain = vector_model(4, 50, 6)
    names = np.array(["bob", "cy", "ada", "dee"], object)
    model = replace(plain, users=Vocabulary(names, "user"))
    monkeypatch.chdir(tmp_path)
    export(model, FORMS[form], "out")
    assert len([line for line in example.splitlines() if line]) == 5
    found: dict[str, list[int]] = {}
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        exec(example, found)
    assert found["best"] == model.recommend("ada", 20).answer_ids.tolist()
