"""Runs in an environment with the official pyasc: lowers recorded kernels and writes what became of each.

``python official_lowering.py RECORD ANSWERS``: one JSON line in, one out. A line that brought the process down
stands in ANSWERS without an outcome; running it again goes on behind it.
"""

import inspect
import json
import linecache
import os
import sys
import types
from pathlib import Path


def lower(entry, number):
    import asc
    import numpy as np
    from asc.codegen.function_visitor import CodegenOptions
    from asc.codegen.specialization import Specialization
    from asc.common.compat import get_annotations
    from asc.language.core import struct
    from asc.runtime import config
    from asc.runtime.compiler import CompileOptions, Compiler
    from asc.runtime.jit import MockTensor, MockValue

    made = types.ModuleType(f"kernel_{number}")
    made.__file__ = f"/nowhere/kernel_{number}.py"
    sys.modules[made.__name__] = made
    text = entry["text"] + "\n"
    linecache.cache[made.__file__] = (len(text), None, text.splitlines(True), made.__file__)
    space = made.__dict__
    space.update({name: getattr(struct, name) for name in ("Struct", "Field", "StructField")})
    space.update(asc=asc, np=np, config=config, MockTensor=MockTensor, MockValue=MockValue)
    exec(compile(text, made.__file__, "exec"), space)
    kernel = space[entry["name"]]
    args, kwargs = eval(f"(lambda *a, **k: (a, k))({entry['args']})", space)
    options = {
        key: value for key, value in eval(entry["options"], space).items() if key in CompileOptions.__annotations__
    }
    bound = inspect.signature(kernel.fn).bind(*args, **kwargs).arguments
    runtime, constants = kernel.split_args(bound, get_annotations(kernel.fn))
    kinds = {key: kernel.get_arg_type(value) for key, value in runtime.items()}
    kernel.cache_key  # noqa: B018 - refuses plain helpers, as a launch does
    module = kernel._run_codegen(Specialization(kinds, constants), CodegenOptions())
    stage = object.__new__(Compiler)
    stage.options = CompileOptions(**options)
    stage.run_passes(module)
    return Compiler.run_translation(module)


def main(record, answers):
    done = len(Path(answers).read_text(encoding="utf-8").splitlines()) if os.path.exists(answers) else 0
    with open(record, encoding="utf-8") as source, open(answers, "a", encoding="utf-8") as out:
        for number, line in enumerate(source):
            if number < done:
                continue
            entry = json.loads(line)
            at = out.tell()
            out.write("{}\n")
            out.flush()
            answer = {"refused": "", "message": "", "cpp": ""}
            if "unportable" not in entry:
                try:
                    answer["cpp"] = lower(entry, number)
                except Exception as problem:
                    answer["refused"], answer["message"] = type(problem).__name__, str(problem)
            os.truncate(answers, at)
            out.seek(at)
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
