"""What is asked of a form that is a folder of files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from ratiorec.export.trial import Judge, Measured
from ratiorec.export.vectors import Vectors


class FolderForm(Protocol):
    """A form that is a folder of files."""

    name: ClassVar[str]

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
        """Write all files into an empty folder, which is thrown away if this raises.

        Raises:
            ConfigError: No setting finds as much as is asked for.
            MissingExtraError: The library that writes the form is not installed.
        """
        ...
