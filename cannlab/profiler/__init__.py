"""Floor 2: from the record of a run to files, tables and pictures."""

from cannlab.profiler.chrome_trace import chrome_trace, write_chrome_trace
from cannlab.profiler.kernel_spans import KernelSpan, kernel_spans
from cannlab.profiler.operator_table import OperatorTable
from cannlab.profiler.timeline import Picture, kernel_timeline, timeline

__all__ = [
    "KernelSpan",
    "OperatorTable",
    "Picture",
    "chrome_trace",
    "kernel_spans",
    "kernel_timeline",
    "timeline",
    "write_chrome_trace",
]
