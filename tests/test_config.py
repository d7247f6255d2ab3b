from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.config import (
    from_table,
    merge,
    named_settings,
    parse_assignment,
    read_toml,
    resolve,
    settings_in,
    to_table,
)
from ratiorec.encoders.settings import (
    NGCF,
    Factorisation,
    LightGCN,
    MultVAE,
    Normal,
    Spectral,
    Xavier,
)
from ratiorec.errors import ConfigError
from ratiorec.kernels.pointwise import GENERATORS, LINKS, Generator
from ratiorec.kernels.unlabelled import BACKENDS
from ratiorec.losses import losses
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import (
    BackendName,
    DensityRatio,
    FrozenWeights,
    GeneratorName,
    HardSampleWeights,
    LinkName,
    PopularityWeights,
    RatioPowerWeights,
    UniformWeights,
)
from ratiorec.losses.generators import PowerDivergence, RelativeRatio
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.model.foldin.newton import CURVATURES
from ratiorec.model.foldin.newton import LINKS as FOLD_IN_LINKS
from ratiorec.presets import PRESETS
from ratiorec.settings import (
    AutoSettings,
    BlendMember,
    BlendSettings,
    PairBatches,
    PopularitySampler,
    Settings,
    SolverSettings,
    Training,
    TwoStageSettings,
    UniformSampler,
    UserBatches,
)
from ratiorec.shapes import Embeddings
from ratiorec.solvers.settings import EASE

EXPERIMENTS = sorted((Path(__file__).parents[1] / "experiments").glob("*.toml"))

counts = st.integers(1, 10_000)
rates = st.floats(1e-9, 1e3)
weights = st.one_of(
    st.just(HardSampleWeights()),
    st.just(UniformWeights()),
    st.builds(PopularityWeights, exponent=st.floats(-2, 2)),
    st.builds(RatioPowerWeights, st.floats(0, 2), st.floats(0, 2)),
)
links = st.sampled_from(get_args(LinkName))
backends = st.sampled_from(get_args(BackendName))
risks = st.one_of(
    st.builds(
        DensityRatio,
        generator=st.one_of(
            st.sampled_from(get_args(GeneratorName)),
            st.builds(PowerDivergence, st.floats(0, 3)),
            st.builds(RelativeRatio, st.floats(0, 3), st.floats(0, 0.9)),
        ),
        link=links,
        weights=weights,
        candidate_correction=st.sampled_from(["none", "inverse-propensity"]),
        upper_bound=st.one_of(st.just(math.inf), rates),
        backend=backends,
    ),
    st.builds(WeightedDRE, link=links, weights=weights, backend=backends),
    st.builds(WeightedPU, link=links, weights=weights, backend=backends),
)
initials = st.one_of(st.builds(Xavier, gain=rates), st.builds(Normal, std=rates))
encoders = st.one_of(
    st.builds(Factorisation, dimension=counts, init=initials),
    st.builds(NGCF, dimension=counts, dropout=st.floats(0, 0.9), init=initials),
    st.builds(
        LightGCN,
        dimension=counts,
        n_layers=st.integers(0, 5),
        self_loops=st.booleans(),
        init=initials,
    ),
)
trainings = st.builds(
    Training,
    learning_rate=rates,
    l2=rates,
    epochs=counts,
    validate_every_epochs=counts,
    min_steps_between_validations=counts,
    patience=counts,
    min_relative_gain=st.floats(0, 1),
    extra_patience_fraction=st.floats(0, 1),
)
some_samplers = st.one_of(
    st.builds(UniformSampler, n_negatives=counts),
    st.builds(PopularitySampler, exponent=st.floats(0, 2)),
)
all_settings = st.one_of(
    st.builds(
        Settings,
        encoder=encoders,
        risk=risks,
        batches=st.builds(UserBatches, n_users=counts),
        training=trainings,
    ),
    st.builds(
        Settings,
        encoder=encoders,
        risk=st.builds(BPR, hardest=st.booleans()),
        batches=st.builds(PairBatches, n_pairs=counts, sampler=some_samplers),
        training=trainings,
    ),
)


def refusal(table: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        from_table(Settings, table, where="")
    return caught.value


@given(settings=all_settings)
def test_settings_are_the_same_again_from_their_table(settings: Settings) -> None:
    assert from_table(Settings, to_table(settings), where="") == settings


@given(settings=all_settings)
def test_a_table_passes_through_json_without_infinities(settings: Settings) -> None:
    text = json.dumps(to_table(settings), allow_nan=False)
    assert from_table(Settings, json.loads(text), where="") == settings


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_same_again_from_its_table(name: str) -> None:
    assert settings_in(json.loads(json.dumps(to_table(PRESETS[name])))) == PRESETS[name]


def test_an_empty_table_gives_the_defaults() -> None:
    assert from_table(Settings, {}, where="") == Settings()


def test_an_infinite_bound_is_written_as_text() -> None:
    table = to_table(Settings(risk=DensityRatio(upper_bound=math.inf)))
    assert table["risk"]["upper_bound"] == "inf"
    assert from_table(Settings, table, where="").risk.upper_bound == math.inf  # type: ignore[union-attr]


def test_a_table_names_its_parts() -> None:
    assert to_table(Settings())["risk"] == {
        "kind": "density-ratio",
        "generator": "least-squares",
        "link": "softplus",
        "weights": {"kind": "hard-sample"},
        "candidate_correction": "inverse-propensity",
        "upper_bound": 70.0,
        "backend": "auto",
    }


def test_the_names_of_a_setting_are_those_that_have_an_implementation() -> None:
    """What the torch-free settings allow, torch's kernels and the fold-in of numpy know."""
    assert set(get_args(GeneratorName)) == GENERATORS.keys() == CURVATURES.keys()
    assert set(get_args(LinkName)) == LINKS.keys() == FOLD_IN_LINKS.keys()
    assert set(get_args(BackendName)) == BACKENDS.keys()


def test_every_loss_of_the_library_is_found_by_its_name() -> None:
    assert losses().keys() == {
        "bpr",
        "density-ratio",
        "multinomial",
        "softmax",
        "weighted-dre",
        "weighted-pu",
        "whole-data",
    }


def test_a_part_made_in_code_is_named_by_its_class() -> None:
    first = Embeddings(torch.zeros(2, 1), torch.zeros(2, 1))
    made = Settings(risk=DensityRatio(weights=FrozenWeights(first)))
    assert to_table(made)["risk"]["weights"]["kind"] == "frozen"


def test_a_generator_made_in_code_still_gives_a_table() -> None:
    own = Generator(*(torch.square for _ in Generator._fields))
    assert to_table(Settings(risk=DensityRatio(generator=own)))["risk"]["generator"] == "custom"


@pytest.mark.parametrize(
    ("table", "where", "found"),
    [
        ({"riskk": {}}, "the settings", "riskk"),
        ({"training": {"epoch": 3}}, "training", "epoch"),
        ({"batches": {"kind": "users", "size": 3}}, "batches", "size"),
        ({"encoder": {"kind": "lightgcn", "layers": 2}}, "encoder", "layers"),
        ({"encoder": {"kind": "factorisation", "n_layers": 2}}, "encoder", "n_layers"),
        ({"risk": {"kind": "density-ratio", "bound": 2}}, "risk", "bound"),
        (
            {"risk": {"kind": "density-ratio", "weights": {"kind": "uniform", "exponent": 1.0}}},
            "risk.weights",
            "exponent",
        ),
    ],
)
def test_an_unknown_setting_is_refused_at_every_level(
    table: dict[str, Any], where: str, found: str
) -> None:
    error = refusal(table)
    assert error.what == "unknown setting"
    assert (error.where, error.found) == (where, found)
    assert error.wanted.startswith("one of ")


def test_the_refusal_of_a_setting_lists_those_that_there_are() -> None:
    assert (
        refusal({"batches": {"kind": "users", "size": 3}}).wanted
        == "one of n_users, min_steps_per_epoch, deal"
    )
    none = refusal({"risk": {"kind": "density-ratio", "weights": {"kind": "uniform", "a": 1}}})
    assert none.wanted == "one of none: it has no settings"


@pytest.mark.parametrize(
    ("section", "name", "value", "wanted"),
    [
        ("training", "epochs", 5.0, "int"),
        ("training", "epochs", "5", "int"),
        ("training", "epochs", True, "int"),
        ("training", "l2", "much", "float"),
        ("training", "l2", False, "float"),
        ("training", "learning_rate", None, "float"),
        ("training", "learning_rate", [0.1], "float"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(
    section: str, name: str, value: Any, wanted: str
) -> None:
    error = refusal({section: {name: value}})
    assert error.what == "a setting has the wrong type"
    assert (error.where, error.found, error.wanted) == (f"{section}.{name}", repr(value), wanted)


def test_a_truth_value_is_no_number_and_a_number_no_truth_value() -> None:
    error = refusal({"encoder": {"kind": "lightgcn", "self_loops": 1}})
    assert (error.where, error.wanted) == ("encoder.self_loops", "bool")


def test_a_whole_number_will_do_for_a_real_one() -> None:
    training = from_table(Settings, {"training": {"l2": 1}}, where="").training
    assert training.l2 == 1.0
    assert type(training.l2) is float


@pytest.mark.parametrize(
    ("table", "where", "found"),
    [
        ({"risk": {"kind": "hinge"}}, "risk.kind", "'hinge'"),
        ({"risk": {"generator": "kl"}}, "risk.kind", "None"),
        ({"risk": {"kind": "density-ratio", "generator": "kl"}}, "risk.generator", "'kl'"),
        ({"risk": {"kind": "density-ratio", "link": 3}}, "risk.link", "3"),
        (
            {"risk": {"kind": "density-ratio", "candidate_correction": ["a"]}},
            "risk.candidate_correction",
            "['a']",
        ),
        ({"risk": {"kind": "density-ratio", "weights": "hard"}}, "risk.weights.kind", "'hard'"),
        ({"encoder": {"kind": 7}}, "encoder.kind", "7"),
        ({"encoder": "gcmc"}, "encoder.kind", "'gcmc'"),
    ],
)
def test_an_unknown_choice_is_refused(table: dict[str, Any], where: str, found: str) -> None:
    error = refusal(table)
    assert error.what == "unknown choice"
    assert (error.where, error.found) == (where, found)
    assert error.wanted.startswith("one of ")


@pytest.mark.parametrize("section", ["encoder", "risk", "batches", "training"])
def test_a_number_where_a_table_belongs_is_refused(section: str) -> None:
    error = refusal({section: 5})
    assert error.what == "a setting is not a table"
    assert (error.where, error.found) == (section, "5")


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"training": {"epochs": 0}}, "training.epochs"),
        ({"training": {"l2": -0.1}}, "training.l2"),
        ({"training": {"learning_rate": math.nan}}, "training.learning_rate"),
        ({"batches": {"kind": "users", "n_users": 0}}, "batches.n_users"),
        ({"risk": {"kind": "density-ratio", "upper_bound": 0}}, "risk.upper_bound"),
        ({"risk": {"kind": "density-ratio", "upper_bound": math.nan}}, "risk.upper_bound"),
    ],
)
def test_a_number_out_of_range_is_refused_by_its_part(table: dict[str, Any], where: str) -> None:
    assert refusal(table).where == where


def test_a_kind_that_another_part_takes_is_refused_where_it_does_not_fit() -> None:
    spectral = {"init": {"kind": "spectral", "rms_length": 1.0}}
    fits = from_table(LightGCN, spectral, where="encoder")
    assert fits.init == Spectral(rms_length=1.0)
    with pytest.raises(ConfigError, match=r"encoder\.init\.kind.*wanted: one of xavier, normal\)"):
        from_table(MultVAE, spectral, where="encoder")


@pytest.mark.parametrize(
    ("assignments", "generator"),
    [
        (["risk.generator=logistic"], "logistic"),
        (["risk.generator=power", "risk.generator.exponent=2"], PowerDivergence(2)),
        (["risk.generator={kind='relative', mixing=0.3}"], RelativeRatio(mixing=0.3)),
        (["risk.generator=power", "risk.generator=least-squares"], "least-squares"),
    ],
)
def test_a_choice_without_settings_is_a_plain_name_beside_parts(
    assignments: list[str], generator: Any
) -> None:
    settings = resolve(Settings(), assignments=assignments)
    assert isinstance(settings, Settings)
    assert isinstance(settings.risk, DensityRatio)
    assert settings.risk.generator == generator


def test_a_plain_name_has_no_settings() -> None:
    with pytest.raises(ConfigError, match=r"risk\.generator; found: exponent"):
        resolve(Settings(), assignments=["risk.generator.exponent=2"])


def test_a_kind_may_be_given_by_its_name_alone() -> None:
    table = {"encoder": "factorisation", "risk": {"kind": "weighted-dre", "weights": "popularity"}}
    settings = from_table(Settings, table, where="")
    assert settings.encoder == Factorisation()
    assert settings.risk == WeightedDRE(weights=PopularityWeights())


def test_merging_changes_only_what_is_named() -> None:
    old = {"training": {"epochs": 3, "l2": 0.1}, "batches": {"n_users": 5}}
    merged = merge(old, {"training": {"epochs": 7}})
    assert merged == {"training": {"epochs": 7, "l2": 0.1}, "batches": {"n_users": 5}}
    assert old["training"]["epochs"] == 3


def test_a_part_of_the_same_kind_keeps_its_other_settings() -> None:
    old = {"encoder": {"kind": "lightgcn", "dimension": 8, "n_layers": 2}}
    for change in ({"n_layers": 1}, {"kind": "lightgcn", "n_layers": 1}):
        assert merge(old, {"encoder": change}) == {
            "encoder": {"kind": "lightgcn", "dimension": 8, "n_layers": 1}
        }
    assert merge(old, {"encoder": "lightgcn"}) == old


def test_a_part_of_another_kind_replaces_the_old_one_whole() -> None:
    old = {"encoder": {"kind": "lightgcn", "dimension": 8, "n_layers": 2}}
    for change in ("factorisation", {"kind": "factorisation"}):
        assert merge(old, {"encoder": change}) == {"encoder": {"kind": "factorisation"}}


def test_a_part_inside_a_part_is_replaced_alone() -> None:
    old = to_table(Settings(risk=DensityRatio(weights=PopularityWeights(0.7), upper_bound=9.0)))
    settings = from_table(Settings, merge(old, {"risk": {"weights": "uniform"}}), where="")
    assert settings.risk == DensityRatio(weights=UniformWeights(), upper_bound=9.0)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("risk.upper_bound=70", ["risk", "upper_bound"], 70),
        ("risk.upper_bound = inf", ["risk", "upper_bound"], math.inf),
        ("training.l2=1e-3", ["training", "l2"], 0.001),
        ("encoder.self_loops=false", ["encoder", "self_loops"], False),
        ("encoder=factorisation", ["encoder"], "factorisation"),
        ("risk.weights='uniform'", ["risk", "weights"], "uniform"),
        (
            "risk.weights={kind = 'popularity', exponent = 1.0}",
            ["risk", "weights"],
            {"kind": "popularity", "exponent": 1.0},
        ),
        ("risk.link=a=b", ["risk", "link"], "a=b"),
        ("risk.link=", ["risk", "link"], ""),
    ],
)
def test_an_assignment_is_a_path_and_a_value(text: str, path: list[str], value: Any) -> None:
    assert parse_assignment(text) == (path, value)


@pytest.mark.parametrize("text", ["", "risk", "=3", " =3"])
def test_an_assignment_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignment(text)
    assert caught.value.where == "--set"
    assert caught.value.found == repr(text)


def test_assignments_come_after_the_file_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[training]\nepochs = 7\nl2 = 0.5\n[risk]\ngenerator='kullback-leibler'\n")
    name, settings = named_settings(
        "dre-mf",
        file=file,
        assignments=["training.epochs=8", "training.epochs=9", "risk.link=exponential"],
    )
    assert name == "dre-mf"
    assert settings == Settings(
        encoder=PRESETS["dre-mf"].encoder,
        risk=DensityRatio(generator="kullback-leibler", link="exponential"),
        training=dataclasses.replace(PRESETS["dre-mf"].training, epochs=9, l2=0.5),
    )


def test_a_file_may_name_its_preset(tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    file.write_text("preset = 'ease'\n[solver]\nl2 = 30\n")
    assert named_settings(None, file=file) == ("ease", SolverSettings(EASE(30.0)))
    assert named_settings("ease", file=file)[0] == "ease"
    assert named_settings(None) == ("auto", AutoSettings())


def test_the_automatic_choice_has_no_settings_to_change() -> None:
    with pytest.raises(ConfigError, match=r'preset="auto".*training\.l2=1'):
        named_settings(None, assignments=["training.l2=1"])


def test_a_blend_comes_back_from_its_table() -> None:
    members = (
        BlendMember("ease", 0.7, 1, 0, SolverSettings(EASE())),
        BlendMember("dregn-cf", 0.3, 40, 1, Settings()),
    )
    table = json.loads(json.dumps(to_table(BlendSettings(members))))
    assert settings_in(table, complete=True) == BlendSettings(members)


def test_without_changes_the_preset_is_what_comes_out() -> None:
    assert resolve(PRESETS["dregn-cf"]) == PRESETS["dregn-cf"]


@pytest.mark.parametrize("text", ["epoch=3", "training.epochs.most=3", "training..epochs=3"])
def test_an_assignment_to_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        resolve(Settings(), assignments=[text])


@pytest.mark.parametrize(
    "content",
    [b"[training\nepochs = 3", b"epochs = ", b"[a]\n[a]\n", b"name = '\xff'", b"\x00"],
)
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(file)
    assert caught.value.where == str(file)
    assert caught.value.wanted == "TOML"


def test_a_missing_settings_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such settings file"):
        read_toml(tmp_path / "none.toml")


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_file_changes_the_preset(path: Path) -> None:
    name = "lightgcn" if path.stem.startswith("lightgcn") else "dregn-cf"
    assert named_settings(name, file=path)[1] != PRESETS[name]
    assert path.read_text().startswith("# ")


def test_a_table_without_a_preset_says_which_sort_of_settings_it_holds() -> None:
    assert settings_in({}) == Settings()
    assert settings_in({"solver": "ease"}) == SolverSettings(EASE())
    both = {"first": {}, "second": {"training": {"epochs": 3}}}
    assert settings_in(both) == TwoStageSettings(Settings(), Settings(training=Training(epochs=3)))


def test_settings_of_one_sort_do_not_take_those_of_another() -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        resolve(SolverSettings(EASE()), assignments=["training.l2=1"])
    with pytest.raises(ConfigError, match="unknown setting"):
        resolve(Settings(), assignments=["solver.l2=1"])


def test_assignments_reach_into_both_stages() -> None:
    start = TwoStageSettings(Settings(), Settings())
    changed = resolve(start, assignments=["first.training.epochs=7", "second.risk.upper_bound=9"])
    assert changed == TwoStageSettings(
        Settings(training=Training(epochs=7)), Settings(risk=DensityRatio(upper_bound=9.0))
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_settings_are_read_from_a_plain_file_of_modest_size_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(100 * 2**30)
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for name, found in (
        ("pipe", "a device, pipe"),
        ("zero", "a device, pipe"),
        ("large", "107,374,182,400 bytes, more than 1,048,576"),
    ):
        with pytest.raises(ConfigError) as caught:
            read_toml(tmp_path / f"{name}.toml")
        assert caught.value.found.startswith(found)
