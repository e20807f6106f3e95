"""The device, its context and stream; whoever needs to be destroyed before them registers."""

import acl

from lite.codes import check


class Registry:
    """What has to be destroyed before the device is given back."""

    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def destroy(self):
        while self.items:
            self.items.pop().destroy()


registry = Registry()


class Resource:
    def __init__(self, device=0):
        self.device = device
        self.context = self.stream = None

    def init(self):
        check("acl.init", acl.init())
        check("acl.rt.set_device", acl.rt.set_device(self.device))
        self.context, code = acl.rt.create_context(self.device)
        check("acl.rt.create_context", code)
        self.stream, code = acl.rt.create_stream()
        check("acl.rt.create_stream", code)
        self.run_mode, code = acl.rt.get_run_mode()
        check("acl.rt.get_run_mode", code)

    def __del__(self):
        registry.destroy()
        if self.stream:
            acl.rt.destroy_stream(self.stream)
        if self.context:
            acl.rt.destroy_context(self.context)
        acl.rt.reset_device(self.device)
        acl.finalize()
