from __future__ import annotations

import pytest

from support.command_line import CommandLine

LARGE = ("--users", "1e8", "--items", "1e7", "--pairs", "1e9")


def test_a_plan_for_people_names_the_largest_part_and_what_was_not_run(cli: CommandLine) -> None:
    said = cli("plan", *LARGE, "--dim", "64", "--device", "h200", "--n", "8")
    assert said.code == 0, said.err
    assert "memory of each of 8 processes" in said.out
    assert "fits into the 139 GiB of h200; the largest part is: " in said.out
    assert "an epoch of 40,000 steps" in said.out
    assert "note: not run: nothing was trained on several GPUs." in said.out
    assert "data-sheet number" in said.out


def test_a_plan_for_programs_has_all_figures(cli: CommandLine) -> None:
    said = cli("plan", *LARGE, "--preset", "softmax", "--layers", "1", "--batch", "1e4", "--json")
    found = said.json
    assert found.keys() == {
        *("device", "training", "memory", "host", "exchange", "seconds", "errors", "notes")
    }
    assert found["training"]["dimension"] == 512
    assert (found["training"]["n_layers"], found["training"]["batch_size"]) == (1, 10_000)
    assert found["memory"].keys() == {"parts", "total", "available", "largest", "fits"}
    assert found["memory"]["fits"] is False
    assert found["exchange"].keys() == {"bytes_per_step", "messages_per_step"}
    assert found["seconds"].keys() == {"compute", "exchange", "step", "epoch"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--users", "0"), "where: --users; found: 0;"),
        (("--users", "10.5"), "where: --users; found: 10.5;"),
        (("--users", "inf"), "where: --users; found: inf;"),
        (("--users", "many"), "'many'"),
        (("--items", "-1"), "where: --items"),
        (("--n", "0"), "where: --n"),
        (("--users", "10", "--items", "1e9", "--n", "11"), "fewer users than processes"),
        (("--device", "tpu"), "one of cpu, h200"),
        (("--preset", "ease"), "one of dregn-cf, softmax"),
        (("--layers", "-1"), "where: --layers"),
        (("--dim", "0"), "where: --dim"),
        (("--batch", "1.5"), "where: --batch"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(
    cli: CommandLine, words: tuple[str, ...], complaint: str
) -> None:
    assert complaint in cli("plan", *LARGE, *words).refusal
