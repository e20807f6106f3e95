"""The command ``cannlab``: names, options and help of every command. The work is done in the modules beside it.

Exit codes: 0 fine, 1 a mistake or something broken, 2 bad usage, 130 interrupted. Each command imports what it
needs when it runs, so that ``cannlab --help`` stays fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from cannlab import __version__

INTERRUPTED = 130


class Verbatim(TyperCommand):
    """A command whose arguments reach its program as they were typed, ``--help`` and ``--`` included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []


class Commands(TyperGroup):
    """The commands, in the order in which a learner meets them."""

    ORDER = (
        *("check-env", "env", "learn", "update", "lab", "demo", "run", "profile", "atc", "graph", "compare"),
        *("npu-smi", "msprof", "explain", "grade", "dev"),
    )

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: (self.ORDER.index(name), name))


app = typer.Typer(
    cls=Commands,
    name="cannlab",
    help="Learn CANN, the software stack of Ascend NPUs, without an NPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cannlab.env import versions

        cann = versions.labelled(versions.emulated().cann)
        print(f"cannlab {__version__}, CANN {cann}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command("check-env")
def check_env(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/check-env.md) instead of text.")] = False,
    root: Annotated[
        list[Path] | None, typer.Option("--root", help="Look for a real installation in this folder. Repeatable.")
    ] = None,
) -> None:
    """Check this machine: what is installed, what fits together, what is emulated."""
    from cannlab.cli.check_env import run

    raise typer.Exit(run(as_json=as_json, roots=root or []))


@app.command("env")
def env(
    soc: Annotated[str | None, typer.Option(help="SoC to emulate, for example Ascend310P3.")] = None,
    devices: Annotated[int | None, typer.Option(help="Number of emulated devices.")] = None,
    shell: Annotated[str, typer.Option(help="bash, zsh or sh.")] = "bash",
) -> None:
    """Print shell code that sets up a shell: eval "$(cannlab env)", the counterpart of set_env.sh."""
    from cannlab.cli.env import run

    raise typer.Exit(run(soc, devices, shell))


@app.command("run", cls=Verbatim)
def run_program(ctx: typer.Context) -> None:
    """Run a Python program with the emulator active: cannlab run [options] prog.py args..."""
    from cannlab.cli.run import main as run_main

    raise typer.Exit(run_main(ctx.args))


@app.command("profile", cls=Verbatim)
def profile(ctx: typer.Context) -> None:
    """Where the time goes: cannlab profile [--json] (model.om | prog.py args...)."""
    from cannlab.cli.profile import main as profile_main

    raise typer.Exit(profile_main(ctx.args))


@app.command("atc", cls=Verbatim)
def atc(ctx: typer.Context) -> None:
    """The model compiler: ONNX to om. All options are atc's own."""
    raise typer.Exit(int(_part("atc", "cannlab.atc").main(ctx.args)))


@app.command("graph")
def graph(
    om: Annotated[Path, typer.Argument(metavar="MODEL.om", help="A compiled model.")],
    before: Annotated[Path | None, typer.Option("--before", help="The ONNX model that it was compiled from.")] = None,
    picture: Annotated[Path | None, typer.Option("--picture", help="Write the picture (PNG) to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show an om's graph: its operators, what each costs, and which pass made it of which ONNX nodes."""
    from cannlab.cli.graph import run

    raise typer.Exit(run(om, before, picture, as_json=as_json))


@app.command("compare")
def compare(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The original model.")],
    om: Annotated[Path, typer.Argument(metavar="MODEL.om", help="What atc made of it.")],
    inputs: Annotated[Path | None, typer.Option("--inputs", help="Arrays by input name (npz); else random.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random inputs.")] = 0,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Relative error that makes a layer bad.")] = 0.02,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Compare an om layer by layer with ONNX Runtime on the original model; exit code 1 if a layer is off."""
    from cannlab.cli.compare import run

    raise typer.Exit(run(model, om, inputs, seed=seed, tolerance=tolerance, as_json=as_json))


@app.command("npu-smi", cls=Verbatim)
def npu_smi(ctx: typer.Context) -> None:
    """Show the emulated devices: cannlab npu-smi info. All options are npu-smi's own."""
    from cannlab.cli.npu_smi import main as npu_smi_main

    raise typer.Exit(npu_smi_main(ctx.args))


@app.command("msprof", cls=Verbatim)
def msprof(ctx: typer.Context) -> None:
    """Profile an application: msprof --output=DIR python prog.py. All options are msprof's own."""
    from cannlab.cli.msprof import main as msprof_main

    raise typer.Exit(msprof_main(ctx.args))


@app.command("explain", context_settings={"ignore_unknown_options": True})  # -8005 is a code, not an option
def explain(
    code: Annotated[str | None, typer.Argument(help="For example 107002, E10016 or memory.use_after_free.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Print every code.")] = False,
) -> None:
    """Explain an error code: what it means, usual causes, what to do, the lesson."""
    from cannlab.cli.explain import run

    if (code is None and not list_all) or (code or "").startswith("--"):
        raise typer.BadParameter("give a code, or --list", param_hint="CODE")
    raise typer.Exit(run(code, list_all=list_all))


@app.command("lab")
def lab(
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Your course folder.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
) -> None:
    """Start JupyterLab in your course folder."""
    from cannlab.cli.lab import run

    raise typer.Exit(run(folder, browser=browser, port=port))


@app.command("learn", cls=Verbatim)
def learn(ctx: typer.Context) -> None:
    """The course: start, update, list, next, check, hint, reset, progress."""
    command = typer.main.get_command(_part("learn", "cannlab.cli.learn").app)
    answer = command.main(args=ctx.args, prog_name="cannlab learn", standalone_mode=False)
    raise typer.Exit(answer if isinstance(answer, int) else 0)


@app.command("update", cls=Verbatim)
def update(ctx: typer.Context) -> None:
    """Bring your course folder to this version; answers are carried over: cannlab update [DIR]."""
    command = typer.main.get_command(_part("update", "cannlab.cli.learn").app)
    answer = command.main(args=["update", *ctx.args], prog_name="cannlab", standalone_mode=False)
    raise typer.Exit(answer if isinstance(answer, int) else 0)


@app.command("dev", cls=Verbatim)
def dev(ctx: typer.Context) -> None:
    """For authors of lessons: check, new, derive, refresh, try, mutate."""
    command = typer.main.get_command(_part("dev", "cannlab.cli.dev").app)
    answer = command.main(args=ctx.args, prog_name="cannlab dev", standalone_mode=False)
    raise typer.Exit(answer if isinstance(answer, int) else 0)


@app.command("demo", cls=Verbatim)
def demo(ctx: typer.Context) -> None:
    """The whole path once: train, export, convert, run, profile, grade."""
    raise typer.Exit(int(_part("demo", "cannlab.cli.demo").main(ctx.args)))


@app.command("grade")
def grade(
    submissions: Annotated[
        Path | None, typer.Argument(metavar="SUBMISSIONS", help="A folder with one folder per learner.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="A new folder for the results.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=256, help="Checking processes; default: one per core.")] = None,
    seed: Annotated[str, typer.Option(help="The secret seed; the same seed gives the same results.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted grading.")] = False,
    lessons: Annotated[
        list[str] | None, typer.Option("--lesson", metavar="LESSON", help="Grade only this lesson. Repeatable.")
    ] = None,
    sign: Annotated[Path | None, typer.Option("--sign", metavar="KEY", help="Sign the results with this key.")] = None,
    scheduler: Annotated[str, typer.Option(metavar="ADDRESS", help="Grade on this Dask cluster.")] = "",
    verify: Annotated[
        Path | None, typer.Option("--verify", metavar="DIR", help="Verify results instead: needs --key.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="PUB", help="The public key for --verify.")] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="PATH", help="Make a pair of keys instead: PATH and PATH.pub.")
    ] = None,
) -> None:
    """For instructors: grade submissions (docs/instructors.md)."""
    from cannlab.cli.grade import Request, run

    request = Request(submissions, out, jobs, seed, resume, tuple(lessons or ()), sign, scheduler, verify, key, new_key)
    raise typer.Exit(run(request))


def _part(command: str, module: str) -> Any:
    """The module behind a command. ``atc`` and ``demo`` have ``main(words) -> int``, ``learn`` has ``app``.

    Raises:
        CannlabError: rule ``cli.no_course``: this installation lacks it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module:
            raise
        from cannlab.errors import CannlabError, diagnose

        raise CannlabError(diagnose("cli.no_course", command=command, problem=str(problem))) from problem


def call(arguments: list[str]) -> int:
    """Run one command line.

    Args:
        arguments: the words after ``cannlab``.

    Returns:
        The exit code: 0, 1 (a mistake, or something broken), 2 (bad usage), 130 (interrupted), or the
        program's own for ``run``, ``atc`` and ``npu-smi``.
    """
    from cannlab.errors import CannlabError

    command = typer.main.get_command(app)
    try:
        answer = command.main(args=arguments, prog_name="cannlab", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except TyperException as error:
        show = getattr(error, "show", None)  # errors of usage print the usage line too
        show() if show else print(error.format_message(), file=sys.stderr)
        return error.exit_code
    except CannlabError as error:
        print(error.diagnosis.text(), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; keep the interpreter from complaining at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return answer if isinstance(answer, int) else 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(call(sys.argv[1:]))
