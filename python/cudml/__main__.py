"""The command line: ``python -m cudml config | demo | explain | info | selfcheck``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import cudml
from cudml._cli import streams
from cudml._cli.failure import Failure
from cudml._cli.numbers import is_number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 good, 1 a mismatch, 2 could not be run."""
    streams.prepare()
    name = "cudml"
    try:
        streams.check_output()
        try:
            options = _parse(arguments)
            name = f"cudml {options.command}"
            return _run(options)
        finally:
            streams.flush()
    except BrokenPipeError:  # the reader has gone, which is no news to whoever started both
        streams.discard_output()
        return 1
    except OSError as error:  # of standard output: commands tell of their own files
        streams.discard_output()
        streams.complain(f"{name}: {streams.reason(error)}")
        return 2
    except Failure as failure:
        streams.complain(f"{name}: {failure}")
        return 2
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        streams.complain(f"{self.prog.removeprefix('python -m ')}: {message}")
        raise SystemExit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and version, whose errors argparse would keep to itself."""
        (file or sys.stdout).write(message)


class _Once(argparse.Action):
    """An option that may be given once; a flag where it takes no value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        given = f"{self.dest} is given"
        if hasattr(namespace, given):
            parser.error(f"{option} is given twice")
        setattr(namespace, given, True)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    options, words = parser.parse_known_args(arguments)
    if options.command == "explain":  # argparse gives up on words behind options
        options.argument += [word for word in words if not word.startswith("-")]
        words = [word for word in words if word.startswith("-")]
    if words:
        is_name = options.command == "demo" and words[0].startswith("-")
        hint = "; a file of such a name is ./-…" if is_name else ""
        parser.prog = " ".join(filter(None, (parser.prog, options.command)))
        parser.error(f"unrecognized arguments: {' '.join(words)}{hint}")
    if options.command is None:
        parser.print_help()
        raise SystemExit(0)
    return options


def _check_environment(name: str) -> None:
    """Every command refuses what is out of range in the variables CUDML_…"""
    try:
        cudml._core.check_environment(name)
    except ValueError as error:
        raise Failure(str(error).removeprefix(f"{name}: ")) from None


def _run(options: argparse.Namespace) -> int:
    """Each command is imported when it is asked for, so that the others do not wait for it."""
    _check_environment(f"cudml {options.command}")
    if options.command == "config":
        from cudml._cli import config

        return config.run([name for name in config.OPTIONS if getattr(options, name)])
    if options.command == "demo":
        from cudml._cli import demo

        return demo.run(options.image, options.output)
    if options.command == "explain":
        from cudml._cli import explain

        return explain.run(
            options.operator,
            options.shape,
            options.dtype,
            options.order,
            options.device,
            options.json,
            options.argument,
        )
    if options.command == "info":
        from cudml._cli import info

        return info.run(options.json)
    from cudml._cli import selfcheck

    return selfcheck.run(options.quick, options.json, options.seed, options.case)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m cudml",
        description="DirectML's pooling, padding and mean-variance normalization operators.",
    )
    parser.add_argument("--version", action="version", version=f"cudml {cudml.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    _add_config(commands)
    demo = commands.add_parser("demo", help="every operator on a photograph, with a figure")
    demo.add_argument(
        "image", nargs="?", metavar="IMAGE", help="your photograph (default: matplotlib's)"
    )
    demo.add_argument(
        "--output",
        action=_Once,
        default="cudml-demo.png",
        metavar="PNG",
        help="default: %(default)s",
    )
    _add_explain(commands)
    info = commands.add_parser("info", help="version, build, processor, threads, CUDA")
    info.add_argument("--json", action=_Once, nargs=0, default=False, help="print one JSON object")
    check = commands.add_parser("selfcheck", help="compare every operator with the reference")
    check.add_argument(
        "--quick", action=_Once, nargs=0, default=False, help="fewer cases, in a few seconds"
    )
    check.add_argument("--json", action=_Once, nargs=0, default=False, help="print one JSON object")
    check.add_argument(
        "--seed", action=_Once, type=_seed, default=0, metavar="N", help="default: %(default)s"
    )
    check.add_argument(
        "--case", action=_Once, metavar="FAMILY/TYPE/NUMBER", help="run only this case"
    )
    return parser


def _add_config(commands: argparse._SubParsersAction[_Parser]) -> None:
    config = commands.add_parser("config", help="where the library for C and C++ programs is")
    for option, what in (
        ("--cmake-dir", "the folder for cudml_DIR"),
        ("--includes", "flags to compile with"),
        ("--libs", "flags to link with"),
    ):
        config.add_argument(option, action=_Once, nargs=0, default=False, help=f"print {what}")


def _add_explain(commands: argparse._SubParsersAction[_Parser]) -> None:
    explain = commands.add_parser("explain", help="which kernel a call would run on, and why")
    explain.add_argument("operator", metavar="OPERATOR", help="such as max_pooling")
    explain.add_argument(
        "argument",
        nargs="*",
        default=[],  # else argparse lists it among what is required
        metavar="NAME=VALUE",
        help="the operator's arguments as Python writes them, as in "
        '\'activation=("elu", {"alpha": 2})\'; arrays are shapes, as in scale=1,64,1,1 or '
        "scale=float32:1,64,1,1; several arrays in one argument, as sums, are the shape of each",
    )
    explain.add_argument(
        "--shape", action=_Once, required=True, metavar="N,N,…", help="sizes of the first array"
    )
    explain.add_argument(
        "--dtype", action=_Once, default="float32", metavar="TYPE", help="default: %(default)s"
    )
    explain.add_argument(
        "--order",
        action=_Once,
        metavar="AXIS,…",
        help="dimensions in memory, outermost first: 0,2,3,1 is NHWC",
    )
    explain.add_argument(
        "--device",
        action=_Once,
        metavar="DEVICE",
        help="cpu (the default), cuda, cuda:0, sm_75 … sm_120",
    )
    explain.add_argument(
        "--json", action=_Once, nargs=0, default=False, help="print one JSON object"
    )


def _seed(text: str) -> int:
    if not is_number(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
