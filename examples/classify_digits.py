"""Classify handwritten digits with an om file, in batches, through pyACL.

    cannlab run examples/classify_digits.py MODEL.om IMAGES.npy LABELS.npy

IMAGES.npy: float32, shape (n, 1, 8, 8), values 0..1. LABELS.npy: int64, shape (n,). The program asks the
model for its sizes, so another batch size needs no change here. It runs unchanged on Ascend hardware.
"""

import sys

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2


def check(what, ret):
    """Stop at the first call that fails, and say which."""
    if ret != 0:
        raise RuntimeError(f"{what} returned {ret}: {acl.get_recent_err_msg()}")


def make_dataset(sizes):
    """One device buffer for each size in bytes, in a dataset. Returns (dataset, [(pointer, buffer)])."""
    dataset, parts = acl.mdl.create_dataset(), []
    for size in sizes:
        pointer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
        check("acl.rt.malloc", ret)
        buffer = acl.create_data_buffer(pointer, size)
        _, ret = acl.mdl.add_dataset_buffer(dataset, buffer)
        check("acl.mdl.add_dataset_buffer", ret)
        parts.append((pointer, buffer))
    return dataset, parts


def free_dataset(dataset, parts):
    """Free memory and buffers first, then the dataset."""
    for pointer, buffer in parts:
        check("acl.rt.free", acl.rt.free(pointer))
        check("acl.destroy_data_buffer", acl.destroy_data_buffer(buffer))
    check("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(dataset))


def classify(om_path, images):
    """Scores for all images: float32, shape (n, classes). The last batch is filled up with zeros."""
    model, ret = acl.mdl.load_from_file(om_path)
    check("acl.mdl.load_from_file", ret)
    desc = acl.mdl.create_desc()
    check("acl.mdl.get_desc", acl.mdl.get_desc(desc, model))

    dims, ret = acl.mdl.get_input_dims(desc, 0)
    check("acl.mdl.get_input_dims", ret)
    batch = dims["dims"][0]
    in_size = acl.mdl.get_input_size_by_index(desc, 0)
    out_size = acl.mdl.get_output_size_by_index(desc, 0)
    inputs, in_parts = make_dataset([in_size])
    outputs, out_parts = make_dataset([out_size])

    scores = []
    for first in range(0, len(images), batch):
        part = images[first : first + batch]
        padded = np.zeros((batch, *images.shape[1:]), dtype=np.float32)
        padded[: len(part)] = part
        data = padded.tobytes()
        ret = acl.rt.memcpy(in_parts[0][0], in_size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
        check("acl.rt.memcpy", ret)
        check("acl.mdl.execute", acl.mdl.execute(model, inputs, outputs))
        result = bytes(out_size)
        ret = acl.rt.memcpy(
            acl.util.bytes_to_ptr(result), out_size, out_parts[0][0], out_size, ACL_MEMCPY_DEVICE_TO_HOST
        )
        check("acl.rt.memcpy", ret)
        scores.append(np.frombuffer(result, dtype=np.float32).reshape(batch, -1)[: len(part)])

    free_dataset(inputs, in_parts)
    free_dataset(outputs, out_parts)
    check("acl.mdl.destroy_desc", acl.mdl.destroy_desc(desc))
    check("acl.mdl.unload", acl.mdl.unload(model))
    return np.concatenate(scores)


def main(om_path, images_path, labels_path):
    """Classify and return the share of right answers."""
    images, labels = np.load(images_path), np.load(labels_path)
    check("acl.init", acl.init())
    check("acl.rt.set_device", acl.rt.set_device(0))
    scores = classify(om_path, images)
    check("acl.rt.reset_device", acl.rt.reset_device(0))
    check("acl.finalize", acl.finalize())
    accuracy = float((scores.argmax(axis=1) == labels).mean())
    print(f"{len(images)} images, accuracy {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:])
