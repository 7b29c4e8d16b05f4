"""The benchmark of strangers' programs from the command line; see README.md."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path

from .catalog import cases, split_of
from .program import Case
from .run import MODES
from .runner import Line, run_all

FILE = Path("/tmp/strangers.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strangers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (
        ("list", "the programs"),
        ("run", "train them, watched as users watch them; what is there already is left out"),
        ("score", "how well the diagnosis did"),
    ):
        command = commands.add_parser(name, help=about)
        command.add_argument("--split", choices=("tuning", "held-out", "all"), default="tuning")
        command.add_argument("--only", nargs="+", default=["*"], help="patterns of names")
        command.add_argument("--file", type=Path, default=FILE, help="the results, a line each")
        if name == "run":
            command.add_argument("--modes", nargs="+", choices=tuple(MODES), default=["default"])
            command.add_argument("--seeds", type=int, nargs="+", default=[0])
            command.add_argument("--kind", choices=("healthy", "faulty", "all"), default="all")
            command.add_argument("--processes", type=int, default=2)
            command.add_argument(
                "--backend",
                choices=("tensorflow", "jax", "torch"),
                help="the Keras backend, instead of each program's own",
            )
        if name == "score":
            command.add_argument("--previous", type=Path, help="results of earlier rules")
            command.add_argument("--note", default="", help="how it was run, for the report")
            command.add_argument("--machine", default="", help="where it was run, if not here")
            command.add_argument("--misses", action="store_true", help="list what was not right")
            command.add_argument("--write", type=Path, help="write .md and .json beside this path")
    args = parser.parse_args()
    chosen = {
        name: case
        for name, case in cases().items()
        if args.split in ("all", split_of(case.family))
        and any(fnmatchcase(name, pattern) for pattern in args.only)
    }
    if args.command == "list":
        for case in chosen.values():
            print(f"{case.fault.kind if case.fault else 'healthy':32} {case.name}")
    elif args.command == "run":
        kept = [
            case
            for case in chosen.values()
            if args.kind in ("all", "faulty" if case.fault else "healthy")
        ]
        results = run_all(
            kept, args.seeds, args.modes, args.file, processes=args.processes, backend=args.backend
        )
        for line in results:
            print(_described(cases()[line["name"]], line), flush=True)
    else:
        from .report import report

        report(args, chosen)


def _described(case: Case, line: Line) -> str:
    said = "; ".join(
        f"{each['severity']} {each['rule']}@{each['step']} {each['layer']}".strip()
        for each in line.get("findings", ())
    )
    what = case.fault.kind if case.fault else "healthy"
    more = line.get("error") or f"{line.get('verdict') or ''} [{said}]"
    return (
        f"{line['name']}-{line['seed']} {line['mode']} ({what}): score {line['score']:.2f}, "
        f"{line['seconds']} s {more}"
    )


if __name__ == "__main__":
    main()
