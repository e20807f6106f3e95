"""Pictures in memory, and what DVPP does with them."""

import acl
import numpy as np

from lite.codes import DEVICE_TO_HOST, HOST_TO_DEVICE, NV12, ON_DVPP, ON_HOST, align, check
from lite.resource import registry


class Picture:
    """A picture: a file's bytes on the host, or pixels in DVPP memory, which it then frees."""

    def __init__(self, pointer, size, width=0, height=0, stride=(0, 0), where=ON_HOST, keep=None):
        self.pointer, self.size, self.width, self.height, self.stride = pointer, size, width, height, stride
        self.where, self.keep = where, keep

    @classmethod
    def from_file(cls, path):
        data = np.fromfile(path, dtype=np.uint8)
        if "bytes_to_ptr" in dir(acl.util):
            data = data.tobytes()
            pointer = acl.util.bytes_to_ptr(data)
        else:
            pointer = acl.util.numpy_to_ptr(data)
        width, height, components, _, code = acl.media.dvpp_jpeg_get_image_info_v2(pointer, len(data))
        check(f"reading the header of {path}", code)
        assert components == 3
        return cls(pointer, len(data), width, height, keep=data)

    def to_dvpp(self):
        pointer, code = acl.media.dvpp_malloc(self.size)
        check("acl.media.dvpp_malloc", code)
        check("acl.rt.memcpy", acl.rt.memcpy(pointer, self.size, self.pointer, self.size, HOST_TO_DEVICE))
        return Picture(pointer, self.size, self.width, self.height, where=ON_DVPP)

    def to_host(self):
        data = bytes(self.size)
        host = acl.util.bytes_to_ptr(data)
        check("acl.rt.memcpy", acl.rt.memcpy(host, self.size, self.pointer, self.size, DEVICE_TO_HOST))
        return data

    def __del__(self):
        if self.where == ON_DVPP and self.pointer:
            acl.media.dvpp_free(self.pointer)
            self.pointer = 0


class PictureTools:
    """A DVPP channel of one thread's context and stream."""

    def __init__(self, stream):
        self.stream = stream
        self.channel = acl.media.dvpp_create_channel_desc()
        check("acl.media.dvpp_create_channel", acl.media.dvpp_create_channel(self.channel))
        self.resize_config = acl.media.dvpp_create_resize_config()
        self.jpege_config = acl.media.dvpp_create_jpege_config()
        check("acl.media.dvpp_set_jpege_config_level", acl.media.dvpp_set_jpege_config_level(self.jpege_config, 90))
        registry.add(self)

    def _desc(self, pointer, size, width, height, stride):
        desc = acl.media.dvpp_create_pic_desc()
        acl.media.dvpp_set_pic_desc_data(desc, pointer)
        acl.media.dvpp_set_pic_desc_format(desc, NV12)
        acl.media.dvpp_set_pic_desc_size(desc, size)
        acl.media.dvpp_set_pic_desc_width(desc, width)
        acl.media.dvpp_set_pic_desc_height(desc, height)
        acl.media.dvpp_set_pic_desc_width_stride(desc, stride[0])
        acl.media.dvpp_set_pic_desc_height_stride(desc, stride[1])
        return desc

    def _wait(self):
        check("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))

    def decode(self, file):
        size, code = acl.media.dvpp_jpeg_predict_dec_size(file.pointer, file.size, NV12)
        check("acl.media.dvpp_jpeg_predict_dec_size", code)
        width, height = align(file.width, 2), align(file.height, 2)
        stride = (align(width, 128), align(height, 16))
        size = max(size, stride[0] * stride[1] * 3 // 2)
        data = file.to_dvpp()
        pointer, code = acl.media.dvpp_malloc(size)
        check("acl.media.dvpp_malloc", code)
        desc = self._desc(pointer, size, width, height, stride)
        check(
            "acl.media.dvpp_jpeg_decode_async",
            acl.media.dvpp_jpeg_decode_async(self.channel, data.pointer, data.size, desc, self.stream),
        )
        self._wait()
        check("the decoded picture", acl.media.dvpp_get_pic_desc_ret_code(desc))
        acl.media.dvpp_destroy_pic_desc(desc)
        return Picture(pointer, size, width, height, stride, ON_DVPP)

    def resize(self, picture, width, height):
        stride = (align(width, 16), align(height, 2))
        size = stride[0] * stride[1] * 3 // 2
        pointer, code = acl.media.dvpp_malloc(size)
        check("acl.media.dvpp_malloc", code)
        source = self._desc(picture.pointer, picture.size, picture.width, picture.height, picture.stride)
        target = self._desc(pointer, size, width, height, stride)
        check(
            "acl.media.dvpp_vpc_resize_async",
            acl.media.dvpp_vpc_resize_async(self.channel, source, target, self.resize_config, self.stream),
        )
        self._wait()
        acl.media.dvpp_destroy_pic_desc(source)
        acl.media.dvpp_destroy_pic_desc(target)
        return Picture(pointer, size, width, height, stride, ON_DVPP)

    def encode(self, picture):
        desc = self._desc(picture.pointer, picture.size, picture.width, picture.height, picture.stride)
        room, code = acl.media.dvpp_jpeg_predict_enc_size(desc, self.jpege_config)
        check("acl.media.dvpp_jpeg_predict_enc_size", code)
        number = np.array([room], dtype=np.int32).tobytes()
        number_pointer = acl.util.bytes_to_ptr(number)
        pointer, code = acl.media.dvpp_malloc(room)
        check("acl.media.dvpp_malloc", code)
        check(
            "acl.media.dvpp_jpeg_encode_async",
            acl.media.dvpp_jpeg_encode_async(
                self.channel, desc, pointer, number_pointer, self.jpege_config, self.stream
            ),
        )
        self._wait()
        acl.media.dvpp_destroy_pic_desc(desc)
        size = int(np.frombuffer(number, dtype=np.int32)[0])
        return Picture(pointer, size, where=ON_DVPP)

    def destroy(self):
        acl.media.dvpp_destroy_resize_config(self.resize_config)
        acl.media.dvpp_destroy_jpege_config(self.jpege_config)
        acl.media.dvpp_destroy_channel(self.channel)
        acl.media.dvpp_destroy_channel_desc(self.channel)
