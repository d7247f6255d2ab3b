"""Bad input gets one clear line and exit code 2, and leaves everything as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ratiorec.model.artifact import Artifact
from ratiorec.model.store import HEADER
from ratiorec.training.checkpoint import FILE
from support.command_line import QUICK, CommandLine, everything_in

ROWS = "".join(f"u{user},i{item}\n" for user in range(8) for item in range(user % 3, 10))

# the content of a file, and what the one line must say about it
FILES: dict[str, tuple[str, bytes, list[str]]] = {
    "an empty file": ("x.csv", b"", ["the file is empty", "found: 0 bytes"]),
    "a header alone": ("x.csv", b"user,item\n", ["found: "]),
    "a missing column": (
        "x.csv",
        b"user,colour\na,red\nb,blue\n",
        ["item", "colour"],
    ),
    "text that is not utf-8": (
        "x.csv",
        f"user,item\n{ROWS}".encode() + b"caf\xe9,i1\n",
        ["the text is not UTF-8", "line ", "\\xe9"],
    ),
    "an id that is not there": (
        "x.csv",
        f"user,item\n{ROWS}NaN,i3\n".encode(),
        ["missing user id", "line ", "found: 'NaN'"],
    ),
    "a negative weight": (
        "x.csv",
        b"user,item,weight\na,x,1\nb,y,-2\n",
        ["weight", "line 3", "-2"],
    ),
    "a weight that is no number": (
        "x.csv",
        b"user,item,weight\na,x,1\nb,y,much\n",
        ["line 3", "much"],
    ),
    "a row with another number of columns": (
        "x.csv",
        f"user,item\n{ROWS}a,b,c\n".encode(),
        ["another number of columns", "line ", "3 columns"],
    ),
    "one user only": (
        "x.csv",
        b"user,item\na,x\na,y\na,z\n",
        ["too few users to learn from", "found: 1 user", "wanted: at least 2 users"],
    ),
    "one item only": (
        "x.csv",
        b"user,item\na,x\nb,x\nc,x\n",
        ["too few items to learn from", "found: 1 item", "wanted: at least 2 items"],
    ),
    "a suffix of no known format": ("x.docx", b"PK", ["unknown file format", ".docx"]),
    "a parquet file that is cut short": ("x.parquet", b"PAR1....", ["Parquet"]),
}

FOLDERS: dict[str, tuple[dict[str, str], list[str]]] = {
    "no train part": ({"test.txt": "0 1\n"}, ["train.txt"]),
    "a ragged line": ({"train.txt": "0 1 2\n\n1 0 2\n"}, ["train.txt, line 2"]),
    "a line that is not of indices": ({"train.txt": "0 1 2\n1 x\n"}, ["train.txt, line 2", "x"]),
    "an item index out of range": (
        {"train.txt": "0 0 1\n1 1 2\n2 0 9\n", "item_list.txt": "org_id remap_id\na 0\nb 1\nc 2\n"},
        ["9", "3"],
    ),
    "a user of the test part out of range": (
        {
            "train.txt": "0 0 1\n1 1 2\n",
            "test.txt": "7 2\n",
            "user_list.txt": "org_id remap_id\na 0\nb 1\n",
        },
        ["test.txt", "7"],
    ),
    "a pair in both parts": (
        {"train.txt": "0 0 1\n1 1 2\n", "test.txt": "0 1\n"},
        ["test pairs are in the training part"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_used_is_refused(cli: CommandLine, tmp_path: Path, name: str) -> None:
    file, content, words = FILES[name]
    (tmp_path / file).write_bytes(content)
    before = everything_in(tmp_path)
    refusal = cli("fit", file, "-o", "model", *QUICK).refusal
    assert all(word in refusal for word in words), refusal
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_cannot_be_used_is_refused(
    cli: CommandLine, tmp_path: Path, name: str
) -> None:
    files, words = FOLDERS[name]
    (tmp_path / "data").mkdir()
    for file, content in files.items():
        (tmp_path / "data" / file).write_text(content)
    before = everything_in(tmp_path)
    refusal = cli("fit", "data", "-o", "model", *QUICK).refusal
    assert all(word in refusal for word in words), refusal
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("command", ["fit", "data describe", "data split"])
def test_a_file_that_is_not_there_is_refused(
    cli: CommandLine, tmp_path: Path, command: str
) -> None:
    output = () if command == "data describe" else ("-o", "out")
    refusal = cli(*command.split(), "none.csv", *output).refusal
    assert "no data named none.csv" in refusal
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--delimiter", "|"), "|"),
        (("--user-column", "nobody"), "nobody"),
        (("--item-column", "nothing"), "nothing"),
        (("--weight-column", "price"), "price"),
        (("--timestamp-column", "when"), "when"),
    ],
)
def test_a_delimiter_or_column_that_is_not_in_the_file_is_refused(
    cli: CommandLine, clicks: Path, tmp_path: Path, options: tuple[str, ...], word: str
) -> None:
    refusal = cli("fit", clicks, "-o", "model", *QUICK, *options).refusal
    assert word in refusal
    assert [path.name for path in tmp_path.iterdir()] == ["clicks.csv"]


@pytest.mark.parametrize(
    ("options", "where", "found"),
    [
        (("--preset", "dregn"), "--preset", "'dregn'"),
        (("--set", "training.epoch=3"), "training", "epoch"),
        (("--set", "learning_rate=3"), "the settings", "learning_rate"),
        (("--set", "training.epochs=many"), "training.epochs", "'many'"),
        (("--set", "risk.kind=hinge"), "risk.kind", "'hinge'"),
        (("--set", "training.epochs"), "--set", "'training.epochs'"),
        (("--set", "training.epochs=0"), "training.epochs", "0"),
        (("--config", "none.toml"), "none.toml", "nothing"),
        (("--device", "cuda:7"), "--device", "'cuda:7'"),
        (("--device", "tpu"), "--device", "'tpu'"),
        (("--validation", "1"), "--validation", "1.0"),
        (("--validation", "nan"), "--validation", "nan"),
        (("--max-seconds", "0"), "--max-seconds", "0.0"),
        (("--checkpoint-seconds", "-1"), "--checkpoint-seconds", "-1.0"),
    ],
)
def test_an_option_that_is_not_possible_is_refused_before_anything_is_read(
    cli: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    where: str,
    found: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    refusal = cli("fit", "none.csv", "-o", "model", "--preset", "dregn-cf", *options).refusal
    assert f"where: {where}; found: {found};" in refusal
    assert list(tmp_path.iterdir()) == []


def test_users_with_too_few_pairs_for_validation_are_refused(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("user,item\na,x\na,y\nb,x\nb,y\n")
    before = everything_in(tmp_path)
    assert "where: --validation" in cli("fit", "x.csv", "-o", "model", *QUICK).refusal
    assert everything_in(tmp_path) == before


def test_training_that_diverges_is_refused_and_leaves_no_model(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    options = ("--set", "training.learning_rate=1e30")
    refusal = cli("fit", clicks, "-o", "model", *QUICK, *options).refusal
    assert "training diverged (where: step " in refusal
    assert not (tmp_path / "model").exists()


def foreign_files(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")


def foreign_header(folder: Path) -> None:
    folder.mkdir()
    (folder / HEADER).write_text('{"format": "another"}')


def a_file(folder: Path) -> None:
    folder.write_text("mine")


@pytest.mark.parametrize("make", [foreign_files, foreign_header, a_file])
def test_what_is_no_model_is_not_written_over(
    cli: CommandLine, clicks: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "model")
    before = everything_in(tmp_path)
    assert "is left as it is" in cli("fit", clicks, "-o", "model", *QUICK).refusal
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x00" * 64])
def test_a_checkpoint_that_is_no_checkpoint_is_refused_and_kept(
    cli: CommandLine, clicks: Path, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "model.checkpoint").mkdir()
    (tmp_path / "model.checkpoint" / FILE).write_bytes(content)
    before = everything_in(tmp_path)
    refusal = cli("fit", clicks, "-o", "model", *QUICK, "--resume").refusal
    assert "the checkpoint cannot be read" in refusal
    assert "without --resume training starts anew" in refusal
    assert everything_in(tmp_path) == before


def no_model(model: Path) -> None:
    for file in model.iterdir():
        file.unlink()
    model.rmdir()


def empty_model(model: Path) -> None:
    for file in model.iterdir():
        file.unlink()


def foreign_model(model: Path) -> None:
    (model / HEADER).write_text('{"format": "another"}')


def later_model(model: Path) -> None:
    header = json.loads((model / HEADER).read_text())
    (model / HEADER).write_text(json.dumps(header | {"version": 99}))


def altered_header(model: Path) -> None:
    header = json.loads((model / HEADER).read_text())
    (model / HEADER).write_text(json.dumps(header | {"settings": {}}))


def cut_header(model: Path) -> None:
    content = (model / HEADER).read_bytes()
    (model / HEADER).write_bytes(content[: len(content) // 2])


def arrays_of(model: Path) -> Path:
    [file] = model.glob("arrays-*")
    return file


def cut_arrays(model: Path) -> None:
    arrays_of(model).write_bytes(arrays_of(model).read_bytes()[:-1])


def altered_arrays(model: Path) -> None:
    content = bytearray(arrays_of(model).read_bytes())
    content[-1] ^= 1
    arrays_of(model).write_bytes(content)


def missing_arrays(model: Path) -> None:
    arrays_of(model).unlink()


SPOILS = [
    no_model,
    empty_model,
    foreign_model,
    later_model,
    altered_header,
    cut_header,
    cut_arrays,
    altered_arrays,
    missing_arrays,
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_corrupt_or_foreign_model_is_refused_by_every_command(
    cli: CommandLine,
    model: Path,
    held_out: Path,
    tmp_path: Path,
    spoil: Callable[[Path], None],
) -> None:
    spoil(model)
    before = everything_in(tmp_path)
    for arguments in (
        ("recommend", model, "--all", "-o", "lists.parquet"),
        ("evaluate", model, "--test", held_out, "--per-user", "users.csv"),
        ("similar", model, "--item", "item-001"),
    ):
        assert str(model) in cli(*arguments).refusal
    assert everything_in(tmp_path) == before


def test_the_second_model_of_a_comparison_is_checked_too(
    cli: CommandLine, model: Path, held_out: Path
) -> None:
    outcome = cli("evaluate", model, "--test", held_out, "--against", "none")
    assert "there is no model (where: none;" in outcome.refusal


def test_a_test_part_with_unknown_users_is_refused_or_skipped(
    cli: CommandLine, model: Path, held_out: Path, tmp_path: Path
) -> None:
    known = cli("evaluate", model, "--test", held_out, "--json").json
    with held_out.open("a") as file:
        file.write("stranger,item-001\n")
    before = everything_in(tmp_path)
    strict = ("--on-unknown", "raise", "--per-user", "users.csv")
    refusal = cli("evaluate", model, "--test", held_out, *strict).refusal
    assert "1 of " in refusal
    assert "found: user 'stranger'" in refusal
    assert everything_in(tmp_path) == before
    skipped = cli("evaluate", model, "--test", held_out, "--json")
    assert "1 of 119 test pairs are left out: 1 of users" in skipped.err
    assert skipped.json["metrics"] == known["metrics"]


def test_a_test_part_without_anyone_known_is_refused(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("user,item\nstranger,item-001\nother,item-002\n")
    refusal = cli("evaluate", model, "--test", "x.csv", "--on-unknown", "skip").refusal
    assert "there is nothing to judge by" in refusal


def test_an_unknown_user_is_refused(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    before = everything_in(tmp_path)
    for output in ((), ("--json",), ("-o", "lists.parquet")):
        refusal = cli("recommend", model, "--user", "nobody", *output).refusal
        assert "1 unknown user id(s)" in refusal
        assert "found: 'nobody'" in refusal
        assert "or --on-unknown skip or --on-unknown fallback" in refusal
    assert everything_in(tmp_path) == before


def test_an_unknown_item_is_refused(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("item-001\nnothing\n")
    refusal = cli("similar", model, "--item", "nothing").refusal
    assert refusal.endswith("found: 'nothing'; wanted: one of the 40 known items)")
    refusal = cli("recommend", model, "--all", "--allow", "items.txt").refusal
    assert "found: 'nothing'" in refusal
    assert "or --on-unknown skip" in refusal


@pytest.mark.parametrize("k", [0, -3])
def test_a_list_of_no_items_is_refused(
    cli: CommandLine, model: Path, held_out: Path, trained: Artifact, tmp_path: Path, k: int
) -> None:
    before = everything_in(tmp_path)
    for arguments in (
        ("recommend", model, "--user", trained.users.ids[0]),
        ("recommend", model, "--all", "-o", "lists.parquet"),
        ("similar", model, "--item", trained.items.ids[0]),
    ):
        assert "wanted: 1 or more" in cli(*arguments, "-k", k).refusal
    judged = ("evaluate", model, "--test", held_out, "--per-user", "users.csv")
    assert "wanted: whole numbers from 1" in cli(*judged, "-k", k).refusal
    assert everything_in(tmp_path) == before


def test_too_little_memory_for_one_list_is_refused(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    refusal = cli("recommend", model, "--all", "-o", "x.parquet", "--memory-mb", 0).refusal
    assert "where: --memory-mb" in refusal
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize("content", [None, b"caf\xe9\n"])
def test_a_file_of_users_that_cannot_be_read_is_refused(
    cli: CommandLine, model: Path, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "users.txt").write_bytes(content)
    assert "where: users.txt" in cli("recommend", model, "--users", "users.txt").refusal


def test_a_folder_in_place_of_a_file_of_users_is_refused(cli: CommandLine, model: Path) -> None:
    assert f"where: {model}" in cli("recommend", model, "--users", model).refusal


def test_figures_in_no_known_format_are_refused(
    cli: CommandLine, model: Path, held_out: Path, tmp_path: Path
) -> None:
    outcome = cli("evaluate", model, "--test", held_out, "--per-user", "users.xls")
    assert ".xls" in outcome.refusal
    assert not (tmp_path / "users.xls").exists()


def test_a_folder_that_is_not_there_is_refused_as_a_place_to_write(
    cli: CommandLine, model: Path, held_out: Path, tmp_path: Path
) -> None:
    before = everything_in(tmp_path)
    for arguments in (
        ("recommend", model, "--all", "-o", "no/lists.parquet"),
        ("evaluate", model, "--test", held_out, "--per-user", "no/users.csv"),
    ):
        assert "could not write the file" in cli(*arguments).refusal
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--by", "luck"), "where: --by; found: 'luck'"),
        (("--fraction", "1.5"), "1.5"),
        (("--by", "last", "--n", "0"), "nothing would be held out"),
        (("--by", "time"), "timestamps"),
    ],
)
def test_a_split_that_is_not_possible_is_refused(
    cli: CommandLine, clicks: Path, tmp_path: Path, options: tuple[str, ...], word: str
) -> None:
    assert word in cli("data", "split", clicks, "-o", "parts", *options).refusal
    assert not (tmp_path / "parts").exists()


def test_a_benchmark_that_is_not_here_says_how_to_get_it(cli: CommandLine, tmp_path: Path) -> None:
    refusal = cli("fit", "gowalla", "-o", "model", *QUICK).refusal
    assert "ratiorec data fetch gowalla" in refusal
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_that_has_no_address_cannot_be_fetched(cli: CommandLine) -> None:
    assert "cannot be downloaded" in cli("data", "fetch", "synthetic").refusal
    assert "no data named netflix" in cli("data", "fetch", "netflix").refusal
