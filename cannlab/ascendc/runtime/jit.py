"""asc.jit: kernels and nested functions. Source: pyasc 1.1 to 1.4."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import fields, replace
from threading import RLock
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from cannlab.ascendc.codegen import alike, probe
from cannlab.ascendc.codegen import runtime as helpers
from cannlab.ascendc.codegen.errors import CodegenError, Source
from cannlab.ascendc.codegen.function_visitor import UNKNOWN, FunctionVisitor, Known, Runtime, Value, referenced
from cannlab.ascendc.codegen.transform import rewrite
from cannlab.ascendc.language.adv.matmul import dismiss, scratch_bytes, serve, served
from cannlab.ascendc.language.core.array import Array
from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.constexpr import ConstExpr, constraints, require_constexpr
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.ir_value import GlobalAddress, IRValue, PassesFailed, PlainValue
from cannlab.ascendc.language.core.memory_allocator import LocalMemAllocator
from cannlab.ascendc.language.core.struct import Struct
from cannlab.ascendc.language.core.tensor import BaseTensor
from cannlab.ascendc.language.fwk.tpipe import TQueBind
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.ascendc.runtime.compiler import CompileOptions
from cannlab.ascendc.runtime.config import chip
from cannlab.ascendc.runtime.launcher import HostArray, LaunchOptions, Scratch, run
from cannlab.errors.places import label
from cannlab.machine import core
from cannlab.machine.core import KernelFault, modes
from cannlab.machine.core.pipes import CUBE_CORE
from cannlab.machine.core.units import MIXED

if TYPE_CHECKING:
    from cannlab.machine.core import Launch, Result
    from cannlab.soc import Soc

_CODEGEN = ("capture_exceptions", "ir_multithreading")
_COMPILE = tuple(field.name for field in fields(CompileOptions))
_LAUNCH = ("core_num", "stream")
_OPTIONS = (*_CODEGEN, *_COMPILE, *_LAUNCH)
_ELEMENTS = {
    *(f"int{bits}" for bits in (8, 16, 32, 64)),
    *(f"uint{bits}" for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
}


_DEVICE = (PlainValue, BaseTensor, TQueBind)


_ONE_AT_A_TIME = RLock()
"""Kernels of several host threads run one after another: the running block is global."""


class MockTensor:
    """Stands for an array of a type; compile only."""

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype


class MockValue:
    """Stands for a scalar of a type; compile only."""

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype


class _Seen(NamedTuple):
    """What the pass over a kernel's calls came to.

    Attributes:
        automatic: it makes automatic tensors.
        apart: every call was seen, and none makes the cores wait for each other or reads the time.
        matmul: it registers a Matmul object. scratch: some of its operands lie in the UB.
    """

    automatic: bool
    apart: bool
    matmul: bool
    scratch: bool


class _Text:
    """A function's source: its text and tree."""

    def __init__(self, function: FunctionType) -> None:
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines))
        node = ast.parse(text).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise AttributeError("asc.jit needs a function made by def")
        self.tree = node
        self.first = first
        self.source = Source(
            function.__name__, label(function.__code__) or function.__code__.co_filename, first, text.splitlines()
        )


class JITFunction:
    """A kernel, or a function that kernels call.

    ``kernel[core_num](...)`` or ``kernel[core_num, stream](...)`` launches it. Inside a kernel it is called like a
    function. Called without brackets on the host it runs as plain Python, so its first device call fails.
    """

    def __init__(self, fn: Callable[..., Any], **options: Any) -> None:
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise RuntimeError(f"The following option names are unknown: {', '.join(unknown)}")
        if not isinstance(fn, FunctionType) or fn.__name__ == "<lambda>":
            raise AttributeError(f"asc.jit needs a function made by def, got {fn!r}")
        self.fn = fn
        self.name = fn.__name__
        self.default_options = options
        self._signature = inspect.signature(fn)
        clashes = self.get_clashed_args(fn)
        if clashes:
            raise RuntimeError(f"argument names conflict with JIT configuration options: {', '.join(clashes)}")
        annotations = inspect.get_annotations(fn)
        self._parameters = [(name, *constraints(annotations.get(name))) for name in self._signature.parameters]
        self.__name__, self.__doc__, self.__wrapped__ = fn.__name__, fn.__doc__, fn
        self._text: _Text | None = None
        self._runner: Callable[..., Any] | None = None
        self._prober: Callable[..., Any] | None = None
        self._checked: dict[tuple[Any, ...], _Seen] = {}
        """Specialisations that the front end took."""
        self._launch_options = LaunchOptions()

    @staticmethod
    def get_clashed_args(fn: Callable[..., Any]) -> list[str]:
        """Parameters that are named like an option."""
        return [name for name in inspect.signature(fn).parameters if name in _OPTIONS]

    @classmethod
    def get_config_keywords(cls) -> list[str]:
        """All option names."""
        return list(_OPTIONS)

    # -- launching ------------------------------------------------------------------------------------

    def __getitem__(self, user_launch_options: Any) -> Callable[..., None]:
        options = user_launch_options if isinstance(user_launch_options, tuple) else (user_launch_options,)
        number = options[0] if options else None
        if not 1 <= len(options) <= 2 or not isinstance(number, (int, np.integer)) or isinstance(number, bool):
            raise TypeError("Parse user launch options failed")
        self._launch_options = LaunchOptions(int(number), options[1] if len(options) == 2 else None)
        return self._run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if GlobalBuilder.state is not None:
            return self._nested(args, kwargs)
        return self.fn(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> None:
        blocks = self._launch_options.core_num
        body, arrays, scalars, sync, cores, apart = self._prepared(args, kwargs, blocks)
        with _ONE_AT_A_TIME:
            GlobalBuilder.calls = {}
            run(self.name, body, arrays, scalars, self._launch_options, sync, cores, apart)

    def _prepared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], blocks: int
    ) -> tuple[Callable[[Launch], None], list[HostArray], list[Any], str, str, bool]:
        """A call's kernel, compiled: what runs per block, arrays to copy, scalars, synchronisation model, cores, and
        whether these run apart from each other."""
        for name in _LAUNCH:
            if name in self.default_options:
                raise TypeError(f"got an unexpected keyword argument '{name}'")
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in _OPTIONS}
        merged = {**self.default_options, **given}
        compile_options = CompileOptions(**{name: merged[name] for name in _COMPILE if name in merged})
        bound = self._signature.bind(*args, **kwargs).arguments
        arguments, arrays, scalars, key = self._arguments(bound)
        seen = self._compile(arguments, key, compile_options.cores)
        runner = self._runner
        assert runner is not None
        cores = compile_options.cores
        if seen.matmul and compile_options.kernel_type is None:
            cores = CUBE_CORE if compile_options.matmul_cube_only else "MIX_1_2"
        serving = seen.matmul and served(cores)
        memory: int | None = None
        if serving and seen.scratch:
            memory = len(arrays)
            arrays = [*arrays, Scratch(max(blocks, 0) * MIXED[cores] * scratch_bytes(chip().ub_bytes))]

        def body(launch: Launch) -> None:
            state = GlobalBuilder.state = BlockState(launch)
            state.matmul_memory = memory
            state.entry = sys._getframe()
            try:
                if serving and launch.cores == CUBE_CORE:
                    serve(state)
                    return
                alike.block_begins(state)
                self._invoke(runner, {name: _per_block(value) for name, value in arguments.items()})
                alike.block_ends(state)
                if serving:
                    dismiss(state)
            finally:
                # The frame holds the state.
                state.entry = None
                GlobalBuilder.state = None

        sync = "auto" if compile_options.auto_sync else "strict"
        if seen.automatic or compile_options.insert_sync:
            sync = "inserted"
        return body, arrays, scalars, sync, cores, seen.apart

    def _invoke(self, runner: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Run rewritten code; what it raises is what the front end would say."""
        try:
            return runner(**arguments)
        except (KernelFault, CodegenError, PassesFailed, probe.Ended, KeyboardInterrupt):
            raise
        except Exception as problem:
            if isinstance(problem, (ArithmeticError, LookupError)) and GlobalBuilder.get(self.name).launch.probing:
                raise probe.Ended from problem
            raise self._codegen_error(problem) from problem

    def _codegen_error(self, problem: Exception) -> CodegenError:
        line = None
        trace = problem.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.fn.__code__.co_filename:
                line = trace.tb_lineno
            trace = trace.tb_next
        text = self._source()
        message = f"{type(problem).__name__}: {problem}"
        if line is None or not 0 <= line - text.first < len(text.source.lines):
            return CodegenError(message)
        node = ast.Pass(lineno=line - text.first + 1, col_offset=0)
        return CodegenError(message, text.source, node)

    def _arguments(self, bound: dict[str, Any]) -> tuple[dict[str, Any], list[HostArray], list[Any], tuple[Any, ...]]:
        """Host values as device values; arrays to copy; scalars for the record; the specialisation's key."""
        arguments: dict[str, Any] = {}
        arrays: list[HostArray] = []
        scalars: list[Any] = []
        key: list[Any] = []
        rules = {name: (constant, kinds) for name, constant, kinds in self._parameters}
        for name, value in bound.items():
            constant, kinds = rules[name]
            if constant:
                require_constexpr(value, *kinds, arg_name=name)
                arguments[name] = ConstExpr.unwrap(value)
                key.append((name, repr(arguments[name])))
                scalars.append({"name": name, "const": repr(arguments[name])})
                continue
            try:
                device = _device_value(value, arrays)
            except ValueError as problem:
                start = ast.Pass(lineno=1, col_offset=0)
                raise CodegenError(f"ValueError: {problem}", self._source().source, start) from None
            arguments[name] = device
            kind = (
                device.dtype.name
                if isinstance(device, (GlobalAddress, PlainValue)) and device.dtype
                else type(value).__name__
            )
            key.append((name, kind))
            if isinstance(device, PlainValue):
                scalars.append({"name": name, "dtype": kind, "value": device.value})
            elif isinstance(device, Struct):
                scalars.append({"name": name, "struct": type(device).__name__, "bytes": value.pack().hex()})
        return arguments, arrays, scalars, tuple(key)

    # -- compiling ------------------------------------------------------------------------------------

    def _source(self) -> _Text:
        if self._text is None:
            self._text = _Text(self.fn)
        return self._text

    def _prepare(self) -> None:
        """Read the text once, refuse plain helpers, make the code that runs."""
        if self._runner is not None:
            return
        text = self._source()
        assert isinstance(self.fn, FunctionType)
        for function in referenced(text.tree, self.fn.__globals__):
            module = str(getattr(function, "__module__", ""))
            if not module.startswith(("cannlab.ascendc", "asc.")) and module != "asc":
                raise RuntimeError(f"Unsupported function referenced: {function}")
        self._runner = rewrite(self.fn, text.tree, text.first, helpers)
        self._prober = rewrite(self.fn, text.tree, text.first, probe, probe=True)

    def _probe(self, arguments: dict[str, Any], cores: str) -> _Seen:
        """Every call once, on a launch that executes nothing: what no overload takes is refused here."""
        assert self._prober is not None
        launch = probe.ProbeLaunch(chip(), 1, cores)
        with _ONE_AT_A_TIME:
            state = BlockState(launch)
            before, GlobalBuilder.state = GlobalBuilder.state, state
            calls, GlobalBuilder.calls = GlobalBuilder.calls, {}
            try:
                self._prober(**{name: _per_block(value) for name, value in arguments.items()})
            except (CodegenError, PassesFailed):
                raise
            except (
                TypeError,
                AttributeError,
                AssertionError,
                NotImplementedError,
                RuntimeError,
                ValueError,
            ) as problem:
                raise self._codegen_error(problem) from problem
            except (probe.Ended, ArithmeticError, LookupError):
                launch.apart = False
                if not state.matmul:
                    # What comes behind was not seen: the kernel's text tells.
                    state.matmul = state.matmul_scratch = _mentions(self._source().tree, "register_matmul")
            finally:
                GlobalBuilder.state, GlobalBuilder.calls = before, calls
        return _Seen(state.automatic, launch.apart, state.matmul, state.matmul_scratch)

    def _compile(self, arguments: dict[str, Any], key: tuple[Any, ...], cores: str) -> _Seen:
        self._prepare()
        key = (*key, cores)
        if key in self._checked:
            return self._checked[key]
        values = {name: _abstract(value) for name, value in arguments.items()}
        self._visit(values, True, (self.name,))
        self._checked[key] = found = self._probe(arguments, cores)
        return found

    def _visit(self, values: dict[str, Value], kernel: bool, active: tuple[str, ...]) -> Value:
        text = self._source()
        assert isinstance(self.fn, FunctionType)
        visitor = FunctionVisitor(text.source, text.tree, self.fn, kernel=kernel, active=active, nested=_visit_nested)
        return visitor.run(values)

    def _nested(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call from a kernel."""
        self._prepare()
        if kwargs or len(args) != len(self._parameters):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = tuple(bound.arguments[name] for name, _, _ in self._parameters)
        arguments: dict[str, Any] = {}
        constants: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for (name, constant, allowed), value in zip(self._parameters, args, strict=True):
            if constant:
                require_constexpr(value, *allowed, arg_name=name)
                arguments[name] = constants[name] = ConstExpr.unwrap(value)
                continue
            if isinstance(value, TQueBind):
                arguments[name] = value
                kinds[name] = type(value).__name__
                continue
            arguments[name] = passed = value if isinstance(value, _DEVICE) else _passed(value)
            dtype = getattr(passed, "dtype", None)
            kinds[name] = dtype.name if isinstance(dtype, DataType) else type(value).__name__
        state = GlobalBuilder.state
        assert state is not None
        known = GlobalBuilder.calls.get(self.name)
        if known is None:
            GlobalBuilder.calls[self.name] = (self, dict(constants), kinds)
        else:
            first, first_constants, first_kinds = known
            if first is not self:
                return first(*args, **kwargs)
            if first_kinds != kinds:
                raise PassesFailed(
                    f"operand type mismatch: {self.name} was compiled for {first_kinds}, called with {kinds}"
                )
            if first_constants != constants:
                shown = ", ".join(f"{name}={value!r}" for name, value in constants.items())
                state.launch.warn("kernel.nested_constants", name=self.name, values=shown)
                arguments.update(first_constants)
        if state.launch.probing:
            assert self._prober is not None
            return self._invoke(self._prober, arguments)
        runner = self._runner
        assert runner is not None
        return self._invoke(runner, arguments)


def emulate(kernel: JITFunction, core_num: int, *args: Any, soc: Soc | None = None, **kwargs: Any) -> Result:
    """Run a kernel on numpy arrays without a machine: nothing is queued, recorded or reported, no argument changes.

    For those who run a kernel as part of something else (a custom operator between two parts of a model).

    Args:
        kernel: what ``asc.jit`` made.
        core_num: blocks.
        args, kwargs: as in ``kernel[core_num](...)``.
        soc: the chip; the emulated one by default.

    Returns:
        Outputs (the bytes of every array argument, in order), broken rules, warnings, simulated time, record.

    Raises:
        KernelFault: a rule at which the core stops.
    """
    if core_num <= 0:
        raise ValueError("Core number should be large than 0")
    body, arrays, scalars, sync, cores, apart = kernel._prepared(args, kwargs, core_num)
    with _ONE_AT_A_TIME:
        GlobalBuilder.calls = {}
        inputs = [array.array for array in arrays]
        there = soc or chip()
        # Its numbers are needed, whatever CANNLAB_KERNEL_DATA says.
        mode = modes.current()._replace(data=True)
        result = core.run(
            kernel.name,
            body,
            inputs,
            core_num,
            soc=there,
            sync=sync,
            scalars=scalars,
            cores=cores,
            apart=apart,
            mode=mode,
        )
    own = sum(not isinstance(array, Scratch) for array in arrays)
    return replace(result, outputs=result.outputs[:own])


def _visit_nested(function: Any, args: list[Value], kwargs: dict[str, Value], active: tuple[str, ...]) -> Value | None:
    """The static pass enters a nested jit function with what is known of its arguments."""
    if not isinstance(function, JITFunction):
        return None
    function._prepare()
    bound = function._signature.bind(*args, **kwargs)
    values: dict[str, Value] = {}
    for name, constant, _ in function._parameters:
        value = bound.arguments.get(name, Known(function._signature.parameters[name].default))
        if not constant and isinstance(value, Known):
            value = _abstract(_runtime(value.value))
        values[name] = value
    return function._visit(values, False, active)


def _mentions(tree: ast.AST, name: str) -> bool:
    """Does a function's text use a name of ``asc``?"""
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in ast.walk(tree))


def _runtime(value: Any) -> Any:
    return PlainValue(value) if isinstance(value, (bool, int, float)) else value


def _passed(value: Any) -> Any:
    """An argument of a nested call: plain numbers become runtime values.

    Raises:
        TypeError: a value that cannot be passed.
    """
    if isinstance(value, (bool, int, float)):
        return PlainValue(value)
    if isinstance(value, LocalMemAllocator) or not isinstance(value, (IRValue, BaseTensor, Array, Struct)):
        raise TypeError(f"Unsupported value type for materialization: {type(value).__name__}")
    return value


def _abstract(value: Any) -> Value:
    """What the static pass knows of a value."""
    if isinstance(value, PlainValue):
        return Runtime(value.dtype.name)
    return UNKNOWN if isinstance(value, (IRValue, BaseTensor)) else Known(value)


def _per_block(value: Any) -> Any:
    """A struct is copied for each block: writes stay in the block."""
    return value.create_local() if isinstance(value, Struct) else value


def _device_value(value: Any, arrays: list[HostArray]) -> Any:
    """A host argument as the kernel sees it.

    Raises:
        TypeError: a kind of value that kernels do not take. ValueError: an element type that pyasc does not have.
    """
    if isinstance(value, np.ndarray):
        return _array(value, value.dtype.name, arrays)
    if isinstance(value, (bool, np.bool_)):
        return PlainValue(int(value), KnownTypes.int8)
    if isinstance(value, np.generic):
        return PlainValue(value.item(), _element(value.dtype.name))
    if isinstance(value, int):
        if not -(1 << 31) <= value < 1 << 31:
            raise OverflowError(f"Python integer {value} out of bounds for int32")
        return PlainValue(value, KnownTypes.int32)
    if isinstance(value, float):
        return PlainValue(value, KnownTypes.float32)
    if isinstance(value, Struct):
        return value
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "data_ptr"):
        if value.device.type != "cpu":
            raise NotImplementedError(
                "tensors on an npu device are not emulated yet for asc kernels: pass a CPU tensor"
            )
        return _array(value, str(value.dtype).removeprefix("torch."), arrays)
    raise TypeError(f"Argument type in JIT function is not supported: {type(value)}")


def _element(name: str) -> DataType:
    if name not in _ELEMENTS:
        raise ValueError(f"Unsupported DataType name: {name}")
    known: DataType = getattr(KnownTypes, name)
    return known


def _array(value: Any, name: str, arrays: list[HostArray]) -> GlobalAddress:
    dtype = _element(name)
    arrays.append(HostArray(value))
    return GlobalAddress(len(arrays) - 1, dtype)


@overload
def jit(fn: Callable[..., Any]) -> JITFunction: ...
@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], JITFunction]: ...
def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel or a nested function: ``@asc.jit`` or ``@asc.jit(option=...)``."""
    if fn is not None:
        return JITFunction(fn, **options)
    return lambda function: JITFunction(function, **options)


__getattr__ = names_of(__name__)
