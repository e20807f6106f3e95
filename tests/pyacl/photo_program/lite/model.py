"""A model with its datasets."""

import acl
import numpy as np

from lite.codes import DEVICE_TO_HOST, HOST_TO_DEVICE, HUGE_FIRST, check
from lite.resource import registry

TYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.uint8, 9: np.int64}


class Model:
    def __init__(self, path):
        self.id, code = acl.mdl.load_from_file(path)
        check("acl.mdl.load_from_file", code)
        self.desc = acl.mdl.create_desc()
        check("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.id))
        self.output, self.output_buffers = self._dataset(acl.mdl.get_num_outputs, acl.mdl.get_output_size_by_index)
        registry.add(self)

    def _dataset(self, count, size):
        dataset, buffers = acl.mdl.create_dataset(), []
        for index in range(count(self.desc)):
            length = size(self.desc, index)
            pointer, code = acl.rt.malloc(length, HUGE_FIRST)
            check("acl.rt.malloc", code)
            _, code = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, length))
            check("acl.mdl.add_dataset_buffer", code)
            buffers.append((pointer, length))
        return dataset, buffers

    def execute(self, inputs):
        """inputs: numpy arrays, or pictures in device memory (with .pointer and .size)."""
        dataset, own = acl.mdl.create_dataset(), []
        for given in inputs:
            if isinstance(given, np.ndarray):
                data = given.tobytes()
                pointer, code = acl.rt.malloc(len(data), HUGE_FIRST)
                check("acl.rt.malloc", code)
                own.append(pointer)
                host = acl.util.bytes_to_ptr(data)
                check("acl.rt.memcpy", acl.rt.memcpy(pointer, len(data), host, len(data), HOST_TO_DEVICE))
                size = len(data)
            else:
                pointer, size = given.pointer, given.size
            _, code = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
            check("acl.mdl.add_dataset_buffer", code)
        check("acl.mdl.execute", acl.mdl.execute(self.id, dataset, self.output))
        self._free(dataset)
        for pointer in own:
            acl.rt.free(pointer)
        return [self._fetch(index) for index in range(len(self.output_buffers))]

    def _fetch(self, index):
        pointer, size = self.output_buffers[index]
        host, code = acl.rt.malloc_host(size)
        check("acl.rt.malloc_host", code)
        check("acl.rt.memcpy", acl.rt.memcpy(host, size, pointer, size, DEVICE_TO_HOST))
        data = acl.util.ptr_to_bytes(host, size)
        acl.rt.free_host(host)
        dims, code = acl.mdl.get_cur_output_dims(self.desc, index)
        check("acl.mdl.get_cur_output_dims", code)
        kind = TYPES[acl.mdl.get_output_data_type(self.desc, index)]
        return np.frombuffer(data, kind).reshape(dims["dims"])

    @staticmethod
    def _free(dataset):
        for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
            acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index))
        acl.mdl.destroy_dataset(dataset)

    def destroy(self):
        self._free(self.output)
        for pointer, _ in self.output_buffers:
            acl.rt.free(pointer)
        acl.mdl.destroy_desc(self.desc)
        check("acl.mdl.unload", acl.mdl.unload(self.id))
