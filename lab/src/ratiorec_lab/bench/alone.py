"""Cases by themselves: `python -m ratiorec.bench.alone TARGET SIZE EXECUTION…` prints their MB."""

from __future__ import annotations

import json
import signal
import sys
from functools import partial

from ratiorec_lab.bench.memory import peak_extra_mb
from ratiorec_lab.bench.targets import TARGETS

_TINY = 8


def main(target: str, size: str, *executions: str) -> None:
    """Measure, after the same on next to nothing has loaded all that is loaded once."""
    alone = TARGETS[target].alone
    assert alone is not None, f"{target} has no case that can run by itself"
    numbers = json.loads(size)
    tiny = {name: min(number, _TINY) for name, number in numbers.items()}
    peaks = {}
    for execution in executions:
        peak_extra_mb(partial(alone, execution, tiny))
        peaks[execution] = peak_extra_mb(partial(alone, execution, numbers))
    print(json.dumps(peaks))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:  # whoever started this is interrupted as well, and says so
        sys.exit(128 + signal.SIGINT)
