"""Numbers of the headers, and the check of return codes."""

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
HUGE_FIRST = 0
NV12 = 1
ON_HOST, ON_DEVICE, ON_DVPP = "host", "device", "dvpp"
LABELS = ("red", "green", "blue")


def check(message, code):
    if code != 0:
        raise RuntimeError(f"{message} failed with {code}")


def align(value, unit):
    return (value + unit - 1) // unit * unit
