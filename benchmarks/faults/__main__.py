"""The fault benchmark from the command line; see README.md."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

FOLDER = Path("/tmp/faults")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where runs are kept")
    parser.add_argument("--half", choices=("tuning", "test"), default="tuning")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the programs of the half")
    generating = commands.add_parser("generate", help="train and record the half's programs")
    generating.add_argument("names", nargs="*", help="only these programs")
    generating.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    generating.add_argument("--backend", default="torch", choices=("torch", "jax", "tensorflow"))
    generating.add_argument(
        "--only-confirm", action="store_true", help="record nothing, only see how they come out"
    )
    live = commands.add_parser("live", help="does the diagnosis find the same live and afterwards")
    live.add_argument("names", nargs="*", help="only these programs")
    live.add_argument("--every", type=int, help="measure every so many steps; else by the budget")
    live.add_argument("--backend", default="torch", choices=("torch", "jax", "tensorflow"))
    agents = commands.add_parser("agents", help="are agents told what the command line says")
    agents.add_argument("names", nargs="*", help="only these programs")
    scoring = commands.add_parser("score", help="diagnose the recorded runs, next to rivals")
    scoring.add_argument("--write", action="store_true", help="keep the result in results/")
    scoring.add_argument("--misses", action="store_true", help="list what was not right")
    args = parser.parse_args()
    if args.command == "list":
        from .catalog import catalog

        for program in catalog().values():
            if program.half == args.half:
                print(f"{program.fault.kind if program.fault else 'healthy':20} {program.name}")
    elif args.command == "live":
        _use(args.backend)
        from .catalog import catalog
        from .live_and_replayed import compare

        programs = [p for p in catalog().values() if p.half == args.half]
        chosen = [p for p in programs if not args.names or p.name in args.names]
        raise SystemExit(compare(chosen, every=args.every) > 0)
    elif args.command == "agents":
        _use("torch")
        from .agents import compare as compare_answers
        from .catalog import catalog

        programs = [p for p in catalog().values() if p.half == args.half]
        chosen = [p for p in programs if not args.names or p.name in args.names]
        raise SystemExit(compare_answers(args.folder / f"agents-{args.half}", chosen) > 0)
    elif args.command == "generate":
        _use(args.backend)
        from .generate import generate

        generate(args.folder, args.half, args.seeds, args.names, not args.only_confirm)
    else:
        from .report import report

        report(args.folder / args.half, args.half, args.write, args.misses)


def _use(backend: str) -> None:
    os.environ["KERAS_BACKEND"] = backend
    if backend == "torch":
        import torch

        # Tensors are tiny: threads only get into each other's way.
        torch.set_num_threads(1)


if __name__ == "__main__":
    main()
