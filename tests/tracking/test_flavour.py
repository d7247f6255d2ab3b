from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ratiorec.tracking.flavour import load_model, save_model
from support.small_models import small_model

pyfunc = pytest.importorskip("mlflow.pyfunc", reason="needs the extra `mlflow`")


def test_a_saved_model_lists_items_for_users_in_a_list_or_in_a_frame(tmp_path: Path) -> None:
    model, users = small_model(), ["user1", "user3"]
    save_model(model, tmp_path / "saved")
    served = pyfunc.load_model(str(tmp_path / "saved"))
    expected = model.recommend(users, k=3, exclude_seen=False).to_pandas()
    frame = pd.DataFrame({"whom": users, "since": [2001, 2002]})
    for asked in (users, frame):
        found = served.predict(asked, params={"k": 3, "exclude_seen": False})
        pd.testing.assert_frame_equal(found, expected)
    assert len(served.predict(users[:1])) == 20
    again = load_model(tmp_path / "saved")
    assert again.recommend(users).to_dicts() == model.recommend(users).to_dicts()
