"""Kernels with sparse products, loads of images and the small operations, as a program launches them."""

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config

P = asc.TPosition
CUBE = config.KernelType.AIC_ONLY


@asc.jit(kernel_type=CUBE)
def sparse_product(x: asc.GlobalAddress, b: asc.GlobalAddress, index: asc.GlobalAddress, z: asc.GlobalAddress):
    """z (16 x 16, int32) = x (16 x 64) times a matrix whose 32 kept rows are in b."""
    x_gm, b_gm, i_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    b_gm.set_global_buffer(b)
    i_gm.set_global_buffer(index)
    z_gm.set_global_buffer(z)
    a1 = asc.LocalTensor(asc.int8, P.A1, 0, 1024)
    b1 = asc.LocalTensor(asc.int8, P.B1, 1024, 512)
    i1 = asc.LocalTensor(asc.uint8, P.B1, 2048, 128)
    a2 = asc.LocalTensor(asc.int8, P.A2, 0, 1024)
    b2 = asc.LocalTensor(asc.int8, P.B2, 0, 512)
    c = asc.LocalTensor(asc.int32, P.CO1, 0, 256)
    asc.data_copy(a1, x_gm, count=1024)
    asc.data_copy(b1, b_gm, count=512)
    asc.data_copy(i1, i_gm, count=128)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.load_data(a2, a1, asc.LoadData2DParams(0, 2, 1, 0, 0, False, 0))
    asc.load_data_with_sparse(b2, b1, i1, asc.LoadData2DParams(0, 1, 0, 0, 0, False, 0))
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    once = asc.MmadParams(16, 16, 64, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True)
    asc.mmad_with_sparse(c, a2, b2, once)
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(z_gm, c, asc.FixpipeParamsV220(16, 16, 16, 16))


@asc.jit(kernel_type=CUBE)
def two_images(x: asc.GlobalAddress, uv: asc.GlobalAddress):
    """A part of an image of three channels, and one of two planes, to L1."""
    x_gm, uv_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    uv_gm.set_global_buffer(uv)
    a1 = asc.LocalTensor(asc.int8, P.A1, 0, 1024)
    asc.set_aipp_functions(x_gm, asc.AippInputFormat.RGB888_U8, asc.AippParams(asc.int8))
    asc.load_image_to_local(a1, asc.LoadImageToLocalParams(4, 4, 2, 1, 8, 0, 0, 1, 1))
    b1 = asc.LocalTensor(asc.float16, P.B1, 4096, 256)
    config_half = asc.AippParams(asc.float16, swap_params=asc.AippSwapParams(), padding_params=asc.AippPaddingParams())
    asc.set_aipp_functions(x_gm, uv_gm, asc.AippInputFormat.YUV420SP_U8, config_half)
    asc.load_image_to_local(b1, asc.LoadImageToLocalParams(4, 4, 0, 0, 8))


@asc.jit(kernel_type=CUBE)
def columns(x: asc.GlobalAddress, value: float):
    """Registers of the loads of images as columns, and the packed form of their parameters."""
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    a1 = asc.LocalTensor(asc.float16, P.A1, 0, 256)
    a2 = asc.LocalTensor(asc.float16, P.A2, 0, 512)
    asc.data_copy(a1, x_gm, count=256)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.set_load_data_repeat(asc.LoadDataRepeatParam(1, 1, 0))
    asc.load_data(a2, a1, asc.LoadData3DParamsV2([0, 0, 0, 0], 4, 4, 16, 16, 16, 0, 0))
    asc.set_load_data_padding_value(2.0)
    asc.set_load_data_padding_value(value)


@asc.jit
def places(z: asc.GlobalAddress):
    """Where the program is, and a watch that is ended at once."""
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    asc.check_local_memory_ia(asc.CheckLocalMemoryIAParam(1, 0, 8, is_vector_write=True, is_enable=True))
    asc.check_local_memory_ia(asc.CheckLocalMemoryIAParam(1, 0, 8))
    z_gm.set_value(0, asc.get_program_counter())


@asc.jit
def in_place(x: asc.GlobalAddress, z: asc.GlobalAddress):
    """One queue of depth 0 each way."""
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    into, out = asc.TQue(P.VECIN, 0), asc.TQue(P.VECOUT, 0)
    pipe.init_buffer(into, 2, 256)
    pipe.init_buffer(out, 2, 256)
    a, b = asc.LocalTensor(asc.float32), asc.LocalTensor(asc.float32)
    into.alloc_tensor(a)
    asc.data_copy(a, x_gm, count=64)
    into.enque(a)
    into.deque(a)
    out.alloc_tensor(b)
    asc.adds(b, a, 1.0, count=64)
    into.free_tensor(a)
    out.enque(b)
    out.deque(b)
    asc.data_copy(z_gm, b, count=64)
    out.free_tensor(b)


@asc.jit
def bound_queue(z: asc.GlobalAddress):
    """A queue that gets no buffers."""
    pipe = asc.TPipe()
    queue = asc.TQueBind(P.VECIN, P.VECOUT, 1)
    pipe.init_buffer(queue, 2, 256)


@asc.jit
def walking(z: asc.GlobalAddress):
    """Each turn fills the next 32 bytes of the UB; block 64 and those behind it are watched."""
    asc.check_local_memory_ia(asc.CheckLocalMemoryIAParam(0, 63, 99, is_vector_write=True, is_enable=True))
    for turn in range(80):
        asc.duplicate(asc.LocalTensor(asc.float32, P.VECIN, turn * 32, 8), 1.0, count=8)
