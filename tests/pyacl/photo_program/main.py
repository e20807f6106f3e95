"""Which colour is strongest in photographs: JPEGs are decoded and resized by DVPP, a model tells the means.

main.py MODEL.om OUTPUT_FOLDER [--cv2] PHOTO...: a thread for each half of the photographs, each with the context of the
main thread, a stream and a DVPP channel of its own.
"""

import io
import os
import queue
import sys
import threading

import acl
import numpy as np
from PIL import Image, ImageDraw

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from lite.codes import LABELS, check
from lite.model import Model
from lite.picture import Picture, PictureTools
from lite.resource import Resource

SIZE = 64


def draw(data, label, path, with_cv2):
    """Write the picture with its label."""
    if with_cv2:
        import cv2

        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        cv2.putText(image, label, (4, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (255, 255, 255))
        cv2.imwrite(path, image)
    else:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        ImageDraw.Draw(image).text((4, 4), label)
        image.save(path)


def work(resource, model, lock, jobs, folder, with_cv2, results):
    check("acl.rt.set_context", acl.rt.set_context(resource.context))
    stream, code = acl.rt.create_stream()
    check("acl.rt.create_stream", code)
    tools = PictureTools(stream)
    while True:
        path = jobs.get()
        if path is None:
            break
        photo = tools.decode(Picture.from_file(path))
        small = tools.resize(photo, SIZE, SIZE)
        with lock:
            (means,) = model.execute([small])
        label = LABELS[int(np.argmax(means))]
        name = os.path.splitext(os.path.basename(path))[0]
        jpeg = tools.encode(photo)
        draw(jpeg.to_host(), label, os.path.join(folder, name + ".png"), with_cv2)
        results[name] = (label, means.reshape(-1).tolist())
    acl.rt.destroy_stream(stream)


def main(words):
    with_cv2 = "--cv2" in words
    om, folder, *photos = [word for word in words if word != "--cv2"]
    resource = Resource()
    resource.init()
    model, lock, results = Model(om), threading.Lock(), {}
    threads = []
    for half in (photos[::2], photos[1::2]):
        jobs = queue.Queue()
        for path in [*half, None]:
            jobs.put(path)
        arguments = (resource, model, lock, jobs, folder, with_cv2, results)
        threads.append(threading.Thread(target=work, args=arguments))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, (label, means) in sorted(results.items()):
        print(name, label, *(f"{mean:.1f}" for mean in means))


if __name__ == "__main__":
    main(sys.argv[1:])
