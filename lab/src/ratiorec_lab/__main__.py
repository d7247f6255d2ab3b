"""All commands of `ratiorec`, the laboratory's among them: `python -m ratiorec_lab bench …`.

It needs no installation, only both `src` folders on the path: commands that come by entry points
where the package is installed are added here by hand.
"""

from __future__ import annotations

from ratiorec.cli.app import app, main
from ratiorec_lab.cli import bench, demo, reproduce

if __name__ == "__main__":
    app.command("demo", epilog=getattr(demo, "EXAMPLES", None))(demo.demo)
    app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce)
    app.command("bench", epilog=bench.EXAMPLES)(bench.bench)
    main()
